import { describe, expect, it } from 'vitest'
import { drop, isSend, placesOf, tinyProgram, withInstructions } from '../../../test/support/programs.ts'
import { communicationProgram } from '../../../test/support/programText.ts'
import type { Program } from '../types.ts'
import { rankList } from './finding.ts'
import { verifyProgram } from './index.ts'
import { formatFinding, type ReportOptions } from './report.ts'

function report(program: Program, code: string, options: ReportOptions = {}): string[] {
  const finding = verifyProgram(program).findings.find((item) => item.code === code)
  if (finding === undefined) throw new Error(`no ${code}`)
  return formatFinding(program, finding, options)
}

describe('a report', () => {
  it('walks the circle of a deadlock, and marks it in the lists of its ranks', () => {
    const program = communicationProgram([
      ['one send #1 a to pipeline+1', 'one send #2 c to pipeline+1', 'one recv #3 b from pipeline+1'],
      ['one recv #2 d from pipeline-1', 'one recv #1 b from pipeline-1', 'one send #3 a to pipeline-1'],
    ])
    expect(report(program, 'DEADLOCK', { mark: (text) => `>${text}<` })).toEqual([
      'DEADLOCK: ranks 0, 1 wait for each other in a circle',
      '  rank 0, instruction 2: send #1 a to pipeline+1',
      '    and only after it, on stream one:',
      '  rank 0, instruction 3: send #2 c to pipeline+1',
      '    which waits for the other end of #2:',
      '  rank 1, instruction 2: recv #2 d from pipeline-1',
      '    and only after it, on stream one:',
      '  rank 1, instruction 3: recv #1 b from pipeline-1',
      '    which waits for the other end of #1:',
      '  rank 0, instruction 2: send #1 a to pipeline+1',
      '    where the circle closes',
      '  rank 0 | >[→1]< >[→2]< ←3 F0',
      '  rank 1 | >[←2]< >[←1]< →3 F0',
      '  fix: issue the instructions of the circle in one order on all ranks',
    ])
  })

  it('says why one waits for the other', () => {
    const memory = communicationProgram([
      ['one recv #2 b from pipeline+1', 'two send #1 b to pipeline+1'],
      ['two recv #1 b from pipeline-1', 'one send #2 b to pipeline-1'],
    ])
    expect(report(memory, 'DEADLOCK')).toContain('    and only after it, in the same memory:')
    expect(report(memory, 'DEADLOCK_BUFFERED')).toContain('    whose message is received by:')
    const queue = communicationProgram([
      ['one all-reduce #1 sum a over both', 'two all-reduce #2 sum c over both'],
      ['two all-reduce #2 sum c over both', 'one all-reduce #1 sum a over both'],
    ])
    const lines = report(queue, 'ISSUE_ORDER')
    expect(lines).toContain('    and only after it, in the order of issue:')
    expect(lines).toContain('    which waits for all members of collective #1:')
    const full = communicationProgram([
      [
        'one send #1 a to pipeline+1',
        'one send #3 c to pipeline+1',
        'one recv #2 b from pipeline+1',
        'one recv #4 d from pipeline+1',
      ],
      [
        'one send #2 a to pipeline-1',
        'one send #4 c to pipeline-1',
        'one recv #1 b from pipeline-1',
        'one recv #3 d from pipeline-1',
      ],
    ])
    expect(report(full, 'DEADLOCK_BUFFERED')).toContain('    which makes room on the channel for:')
  })

  it('names place and ranks, and draws what is around', () => {
    const program = tinyProgram({ stages: 2, data: 2, microbatches: 8 })
    const at = placesOf(program.roles[0]!, isSend)[3]!
    const lines = report(
      withInstructions(program, 0, (list) => drop(list, at)),
      'TRANSFER_UNMATCHED',
      { around: 2 },
    )
    expect(lines[0]).toMatch(
      /^TRANSFER_UNMATCHED: transfer #\d+ from rank 0 to rank 2 is received but never sent \[ranks 0 to 3\]$/,
    )
    expect(lines[1]).toMatch(/^ {2}at rank 2, instruction \d+: recv #\d+ x0\[3\] from pipeline-1$/)
    // Two cells on each side of the marked one, and signs that there is more.
    expect(lines[2]).toMatch(/^ {2}rank 2 \| … \S+ \S+ \[←\d+\] \S+ \S+ …$/)
    expect(lines.at(-1)).toBe('  fix: add its send, or remove it')
  })

  it('has no picture of what has no place', () => {
    const program = tinyProgram({ stages: 1, data: 2 })
    const [finding] = verifyProgram(program, { budgetBytes: 1 }).findings
    expect(formatFinding(program, finding!)).toEqual([
      expect.stringMatching(/^MEMORY_BUDGET: pipeline=0 needs \d+ bytes .* \[ranks 0, 1\]$/),
      expect.stringMatching(/^ {2}fix: /),
    ])
  })
})

describe('a list of ranks', () => {
  it.each([
    [[], 'no rank'],
    [[3], 'rank 3'],
    [[4, 2], 'ranks 2, 4'],
    [[3, 1, 2], 'ranks 1 to 3'],
    [Array.from({ length: 20 }, (_, index) => 2 * index), 'ranks 0, 2, 4, 6, 8, 10, 12, 14, … (20)'],
  ])('%o reads %s', (ranks, text) => {
    expect(rankList(ranks)).toBe(text)
  })
})
