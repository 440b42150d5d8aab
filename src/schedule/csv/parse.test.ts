import { describe, expect, it } from 'vitest'
import { MeshwrightError } from '../../base/index.ts'
import { formatEntry, parseScheduleCsv, type ScheduleCsv, validateSchedule } from '../index.ts'

const compute = '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n'

function rows(csv: ScheduleCsv): string[] {
  return csv.schedule.actors.map((entries) => entries.map(formatEntry).join(' '))
}

/** `line:column message | hint`. */
function refusal(text: string, options: Parameters<typeof parseScheduleCsv>[1] = {}): string {
  try {
    parseScheduleCsv(text, options)
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    expect(error.code).toBe('SCHEDULE_CSV')
    return `${error.at?.line}:${error.at?.column} ${error.message} | ${error.hint}`
  }
  return 'accepted'
}

describe('computations', () => {
  it('reads a row for each actor', () => {
    expect(parseScheduleCsv(compute)).toEqual({
      dialect: 'compute',
      letters: 'current',
      schedule: {
        stages: 2,
        microbatches: 2,
        placement: [0, 1],
        actors: [
          [
            { phase: 'F', stage: 0, microbatch: 0 },
            { phase: 'F', stage: 0, microbatch: 1 },
            { phase: 'B', stage: 0, microbatch: 0 },
            { phase: 'B', stage: 0, microbatch: 1 },
          ],
          [
            { phase: 'F', stage: 1, microbatch: 0 },
            { phase: 'B', stage: 1, microbatch: 0 },
            { phase: 'F', stage: 1, microbatch: 1 },
            { phase: 'B', stage: 1, microbatch: 1 },
          ],
        ],
      },
    })
  })

  it.each([
    ['idle cells, ragged', '0F0,0F1,,,0B0,0B1\n,1F0,1B0,1F1,1B1,\n'],
    ['line ends of Windows', compute.replaceAll('\n', '\r\n')],
    ['line ends of old', compute.replaceAll('\n', '\r')],
    ['no line end at the end', compute.trimEnd()],
    ['blanks around cells', '0F0 , 0F1,\t0B0,  ,0B1\n1F0,1B0,1F1,1B1'],
    ['quotes around cells', '"0F0",0F1,"",0B0," 0B1 "\n1F0,1B0,1F1,"1B1"\n'],
  ])('reads %s the same', (_what, text) => {
    expect(parseScheduleCsv(text)).toEqual(parseScheduleCsv(compute))
  })

  it('reads overlapping pairs, and stages in any order of rows', () => {
    const csv = parseScheduleCsv('0F0,1F0,(0F1;1B0)OVERLAP_F_B,( 1F1 ; 0I0 )OVERLAP_F_B,0W0,1B1,0B1\n')
    expect(rows(csv)).toEqual(['0F0 1F0 (0F1;1B0) (1F1;0I0) 0W0 1B1 0B1'])
    expect(validateSchedule(csv.schedule)).toEqual([])
    expect(parseScheduleCsv('1F0,1B0\n0F0,0B0\n').schedule.placement).toEqual([1, 0])
  })
})

describe('what is refused', () => {
  it.each([
    // What PyTorch would take by a prefix.
    [
      '0F0,0B0xyz',
      '1:8 "0B0xyz" has "xyz" after the action | PyTorch would drop it without a word and run 0B0',
    ],
    ['0F0,0B0 0', '1:8 "0B0 0" has " 0" after the action'],
    ['0F0,0BAR', '1:6 "0BAR": there is no action "BAR"'],
    ['0F0,0B0\n1F0,1B', '2:7 "1B" has no micro-batch'],
    ['0F0,(0F1;0B0)OVERLAP_F_B2', '1:14 "(0F1;0B0)OVERLAP_F_B2" does not end in OVERLAP_F_B'],
    ['0F0,0UNSHARD0', '1:13 "0UNSHARD0" has a micro-batch'],
    // Letters.
    ['0F0,0Q0', '1:6 "0Q0": there is no action "Q" | actions are F, I, W, B, BW, SEND_F'],
    ['0F0,0f1', '1:6 "0f1": there is no action "f"'],
    ['0F0,0SEND_FF1', '1:6 "0SEND_FF1": there is no action "SEND_FF" | did you mean "SEND_F"?'],
    ['0F0,0U0', '1:6 "0U0": there is no action "U"'],
    ['0F0,10', '1:7 "10" has no letter'],
    ['F0', '1:1 "F0" does not begin with a stage'],
    ['0F0,-1F0', '1:5 "-1F0" does not begin with a stage'],
    ['0F0,0F٣', '1:7 "0F٣" has "٣" after the action'],
    ['0F0\u00a0', '1:4 "0F0\u00a0" has "\u00a0" after the action'],
    // Pairs.
    ['(0F0;0B0', '1:1 "(0F0;0B0" lacks its closing bracket'],
    ['()OVERLAP_F_B', '1:1 "()OVERLAP_F_B" has one action'],
    ['(0F1)OVERLAP_F_B', '1:1 "(0F1)OVERLAP_F_B" has one action | two actions overlap'],
    ['(0F1;0B0;0F2)OVERLAP_F_B', '1:1 "(0F1;0B0;0F2)OVERLAP_F_B" has 3 actions'],
    ['(0B0;0F1)OVERLAP_F_B', '1:1 "(0B0;0F1)OVERLAP_F_B" is no forward with a backward'],
    ['(0F1;0W0)OVERLAP_F_B', 'is no forward with a backward | OVERLAP_F_B holds a forward, then a backward'],
    ['0F0,(0F1; 0X0)OVERLAP_F_B', '1:12 "0X0": there is no action "X"'],
    // Numbers.
    ['4096F0', '1:1 a stage is "4096" | it is at most 4095'],
    ['0F65536', '1:3 a micro-batch is "65536" | it is at most 65535'],
    [`${'9'.repeat(60)}F0`, '| it is at most 4095'],
    ['01F0', '1:1 a stage is written "01" | numbers have no leading zeros'],
    ['0F00', '1:3 a micro-batch is written "00"'],
    // Rows.
    ['', '1:1 the file is empty'],
    [',,,', '1:1 row 1 has no action'],
    ['0F0,0B0\n\n1F0,1B0', '2:1 row 2 has no action | each row is a rank and each rank has a stage'],
    ['0F0,0B0\n\n', '2:1 row 2 has no action'],
    [
      '0F0,0B0\n1F0,,0B1',
      '2:6 "0B1" puts stage 0 on row 2, but "0F0" (line 1, column 1) has it on row 1 | a stage has one rank',
    ],
    ['0F0,0B0\n2F0,2B0', '2:1 "2F0" is of stage 2, but stage 1 is in no row'],
    // Python's csv.
    ['\uFEFF0F0,0B0', '1:1 the file starts with a byte order mark'],
    ['0F0,"0B0', '1:9 the quote is not closed'],
    ['0F0,"0B0\n"', '1:9 the quote is not closed'],
    ['"0F0"1,0B0', '1:6 there is text after the closing quote'],
    ['0"F"0', '1:2 "0\\"F\\"0" has no letter'],
    [`0F0,${' '.repeat(200)}0B0`, '1:5 a cell of more than 128 characters'],
  ])('%s', (text, expected) => {
    expect(refusal(text)).toContain(expected)
  })

  it('names the file', () => {
    expect(() => parseScheduleCsv('0Q0', { file: 'a.csv' })).toThrow(
      expect.objectContaining({ at: { file: 'a.csv', line: 1, column: 2 } }),
    )
  })

  it('gigabytes of commas, without holding them', () => {
    expect(refusal(','.repeat(5e7))).toMatch(/^1:8000001 more than 8000000 cells/)
    expect(refusal('\n'.repeat(5e7))).toContain('row 1 has no action')
    expect(refusal(' '.repeat(5e7))).toContain('a cell of more than 128 characters')
    expect(refusal(','.repeat(2 ** 26 + 1))).toContain('a schedule of 67108865 characters is too long')
    expect(refusal('0F0\n'.repeat(1) + Array.from({ length: 4096 }, () => '0F1\n').join(''))).toContain(
      'puts stage 0 on row 2',
    )
  })
})

describe('letters of 2024', () => {
  it('are recognised by BW, or by W without I, named and translated', () => {
    const whole = parseScheduleCsv('0F0,0F1,0BW0,0B1,0W1\n')
    expect(whole.letters).toBe('2024')
    expect(rows(whole)).toEqual(['0F0 0F1 0B0 0I1 0W1'])
    const split = parseScheduleCsv('0F0,(0F1;0B0)OVERLAP_F_B,0W0,0B1,0W1\n')
    expect(split.letters).toBe('2024')
    expect(rows(split)).toEqual(['0F0 (0F1;0I0) 0W0 0I1 0W1'])
    const communication = parseScheduleCsv('0F0,0SEND_F0,0RECV_B0,0B0,0W0\n1RECV_F0,1F0,1BW0,1SEND_B0\n')
    expect([communication.letters, communication.dialect]).toEqual(['2024', 'communication'])
    expect(rows(communication)).toEqual(['0F0 0I0 0W0', '1F0 1B0'])
  })

  it("are not seen in today's files", () => {
    for (const text of [compute, '0F0,0I0,0W0\n', '0F0,0I0,0W0,0F1,0B1\n', '0F0\n', '0F0,0W0\n'])
      expect(parseScheduleCsv(text).letters).toBe('current')
  })

  it.each([
    [
      '0F0,0I0,0W0\n1F0,1BW0',
      '2:5 two meanings of the letters in one file: 1BW0 (line 2, column 5) is in the letters of 2024, 0I0 (line 1, column 5)',
    ],
    [
      '0F0,0B0\n1F0,1BW0',
      '1:5 two meanings of the letters in one file: 0B0 (line 1, column 5) has no W, as today, 1BW0 (line 2, column 5) is in',
    ],
    [
      '0F0,,0B0\n1F0,1B0,1W0',
      '1:6 two meanings of the letters in one file: 0B0 (line 1, column 6) has no W, as today, 1B0 (line 2, column 5) has a W, as in 2024',
    ],
    [
      '0F0,0I0,0W0\n1F0,1B0,1W0',
      "2:5 two meanings of the letters in one file: 1B0 (line 2, column 5) has a W of its own, as in 2024, 0I0 (line 1, column 5) is in today's letters",
    ],
  ])('are refused beside those of today: %s', (text, expected) => {
    expect(refusal(text)).toContain(expected)
  })
})

describe('dialects', () => {
  const communication = '0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n'

  it('are told apart by what is in them', () => {
    const csv = parseScheduleCsv(communication)
    expect(csv.dialect).toBe('communication')
    expect(rows(csv)).toEqual(['0F0 0B0', '1F0 1B0'])
    expect(csv.communication?.actors[1]?.[0]).toEqual({ phase: 'RECV_F', stage: 1, microbatch: 0 })
    expect(csv.communication?.actors[1]?.[4]).toEqual({ phase: 'REDUCE_GRAD', stage: 1, microbatch: 0 })
  })

  it('are refused where another is wanted, and idle cells beside communication', () => {
    expect(refusal(communication, { dialect: 'compute' })).toContain('1:5 "0SEND_F0" is communication')
    expect(refusal('0F0,,0B0', { dialect: 'communication' })).toContain('1:5 an idle cell')
    expect(refusal(communication.replace(',1F0', ',,1F0'))).toContain(
      '2:10 an idle cell in a file with communication, as "0SEND_F0" (line 1, column 5) makes this one',
    )
    expect(refusal(`${communication.trimEnd()},\n`)).toContain('an idle cell')
    expect(parseScheduleCsv('0F0,0B0', { dialect: 'communication' }).dialect).toBe('communication')
  })
})
