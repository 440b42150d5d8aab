import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import {
  isRecv,
  isSend,
  placesOf,
  swap,
  tinyProgram,
  withInstructions,
} from '../../../test/support/programs.ts'
import { communicationProgram } from '../../../test/support/programText.ts'
import type { Instruction, Program } from '../types.ts'
import { verifyProgram } from './index.ts'

const gpipe = tinyProgram({ stages: 2, data: 2, microbatches: 2, schedule: 'gpipe' })

describe('deadlock', () => {
  /** The sends of m0 and m1 in the wrong order; their frees stay behind both. */
  function swapped(program: Program, role: number, test: (item: Instruction) => boolean): Program {
    return withInstructions(program, role, (list) => {
      const [a, b] = placesOf(program.roles[role]!, test) as [number, number]
      return swap(list, a, b)
    })
  }

  it.each([
    ['sends', 0, isSend],
    ['receives', 1, isRecv],
  ] as const)('finds two swapped %s, with the circle', (_, role, test) => {
    const { findings, skipped } = verifyProgram(swapped(gpipe, role, test))
    const found = findings[0]!
    expect(found).toMatchObject({ code: 'DEADLOCK', ranks: [0, 2] })
    expect(findings.map(({ code }) => code)).toContain('CHANNEL_ORDER')
    expect(skipped).toEqual(['bufferedDeadlock', 'oneQueue', 'memory'])
    // Rank 0 sends a before b where rank 2 receives b before a.
    expect(found.cycle).toHaveLength(2)
    const [first, second] = found.cycle!
    expect([first!.from.rank, second!.from.rank].sort()).toEqual([0, 2])
    for (const edge of found.cycle!) {
      expect(edge.why).toBe('order')
      expect(edge.from.rank).toBe(edge.to.rank)
      expect(edge.from.instruction).toBeLessThan(edge.to.instruction)
    }
  })

  it('finds crossed sends under rendezvous, which channel slots resolve', () => {
    // Both ranks send before they receive.
    const once = communicationProgram([
      ['one send #1 a to pipeline+1', 'one recv #2 b from pipeline+1'],
      ['one send #2 a to pipeline-1', 'one recv #1 b from pipeline-1'],
    ])
    expect(codes(once)).toEqual(['DEADLOCK'])
    expect(verifyProgram(once).proven).toContain('bufferedDeadlock')
    const twice = [
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
    ]
    const found = verifyProgram(communicationProgram(twice, 1)).findings
    expect(found.map(({ code }) => code)).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    // Rank 1 has no room for its second message before rank 0 takes the first, and the other way round.
    expect(found[1]!.cycle!.map(({ why }) => why).sort()).toEqual(['order', 'order', 'slot', 'slot'])
    expect(codes(communicationProgram(twice, 2))).toEqual(['DEADLOCK'])
  })

  it('accepts exchanges in both directions, and tells apart those that cross', () => {
    const both = [
      ['one exchange send #1 a to pipeline+1 | recv #2 b from pipeline+1'],
      ['one exchange send #2 a to pipeline-1 | recv #1 b from pipeline-1'],
    ]
    expect(codes(communicationProgram(both))).toEqual([])
    // Each rank's exchange needs the other's second one.
    const crossed = [
      [
        'one exchange send #1 a to pipeline+1 | recv #4 b from pipeline+1',
        'one exchange send #2 a to pipeline+1 | recv #3 d from pipeline+1',
      ],
      [
        'one exchange send #3 a to pipeline-1 | recv #2 b from pipeline-1',
        'one exchange send #4 a to pipeline-1 | recv #1 d from pipeline-1',
      ],
    ]
    expect(codes(communicationProgram(crossed))).toContain('DEADLOCK')
  })

  it('finds circles through memory', () => {
    // Each rank passes on what it waits for, on streams that do not hold each other up.
    const circle = communicationProgram([
      ['one recv #2 b from pipeline+1', 'two send #1 b to pipeline+1'],
      ['two recv #1 b from pipeline-1', 'one send #2 b to pipeline-1'],
    ])
    const { findings } = verifyProgram(circle)
    expect(findings.map(({ code }) => code)).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    expect(findings[0]!.cycle!.map(({ why }) => why)).toEqual(['data', 'data'])
    expect(findings[1]!.cycle!.map(({ why }) => why).sort()).toEqual(['data', 'data', 'meets', 'meets'])
  })

  it('finds collectives in opposite orders on one stream, and on two that a single queue cannot serve', () => {
    const collectives = (stream: string): Program =>
      communicationProgram([
        ['one all-reduce #1 sum a over both', `${stream} all-reduce #2 sum c over both`],
        [`${stream} all-reduce #2 sum c over both`, 'one all-reduce #1 sum a over both'],
      ])
    expect(codes(collectives('one'))).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    const { findings } = verifyProgram(collectives('two'))
    expect(findings.map(({ code }) => code)).toEqual(['ISSUE_ORDER'])
    expect(findings[0]!.cycle).toHaveLength(2)
  })

  it('finds a collective and a transfer in opposite orders', () => {
    const found = codes(
      communicationProgram([
        ['one all-reduce #1 sum a over both', 'one send #2 c to pipeline+1'],
        ['one recv #2 b from pipeline-1', 'one all-reduce #1 sum a over both'],
      ]),
    )
    expect(found).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
  })
})
