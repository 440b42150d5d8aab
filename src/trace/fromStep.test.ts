import { describe, expect, it } from 'vitest'
import {
  allReduce,
  exchange,
  free,
  makeGraph,
  makeProgram,
  makeRole,
  makeTask,
  moveIn,
  pipelinePeer,
  recv,
  run,
  send,
  vectorType,
} from '../../test/support/handmadeProgram.ts'
import type { Program } from '../program/index.ts'
import { traceFromStep } from './index.ts'

/** Stage 0 sends two messages and stage 1 takes them over a channel of one slot; then both reduce. */
function twoStages(): Program {
  const task = makeTask(
    'F0',
    makeGraph({ x: vectorType(3) }, (builder, { x }) => ({ y: builder.one('neg', [x!], {}) })),
  )
  const action = { phase: 'F', stage: 0, microbatch: 1 }
  const first = makeRole(0, {
    buffers: [
      { name: 'x', shape: [3], dtype: 'f32' },
      { name: 'y', shape: [3], dtype: 'f32' },
    ],
    values: ['x[1]', 'y[1]'],
    peers: [pipelinePeer(1)],
    code: (v) => [
      moveIn('x', v('x[1]')),
      { ...run(0, [v('x[1]')], [v('y[1]')]), action: 0 } as ReturnType<typeof run>,
      exchange(send(10, v('y[1]'))),
      exchange(send(11, v('x[1]'))),
      free(v('x[1]')),
      allReduce(12, v('y[1]')),
    ],
  })
  const second = makeRole(1, {
    buffers: [{ name: 'y', shape: [3], dtype: 'f32', slots: 2 }],
    values: ['y[1]', 'y[0]@1'],
    peers: [pipelinePeer(-1)],
    code: (v) => [exchange(recv(10, v('y[1]'))), exchange(recv(11, v('y[0]'))), allReduce(12, v('y[1]'))],
  })
  return makeProgram({
    submeshes: [[], []],
    roles: [{ ...first, actions: [action] }, second],
    tasks: [task],
    groups: [{ name: 'all', axes: ['pipeline'] }],
    channelSlots: 1,
  })
}

describe('traceFromStep', () => {
  const times = [
    // [instruction, start, end], not in order; the free takes no time worth showing.
    [1, 1, 4, 0, 0, 1, 2, 4, 5, 4, 9, 9, 3, 5, 8, 5, 9, 11],
    [0, 2, 6, 1, 6, 9, 2, 10, 11],
  ].map((triples) => Float64Array.from(triples))
  const { events, ranks, streams } = traceFromStep(twoStages(), times)
  const at = (rank: number, instruction: number): unknown =>
    events.find((event) => event.rank === rank && event.instruction === instruction)

  it('names and places each instruction', () => {
    expect(ranks).toBe(2)
    expect(streams[1]).toEqual({ name: 'forward', resource: 'network' })
    expect(at(0, 0)).toEqual({
      rank: 0,
      stream: 4,
      kind: 'move',
      name: 'in x[1]',
      microbatch: 1,
      bytes: 12,
      start: 0,
      end: 1,
      instruction: 0,
    })
    expect(at(0, 1)).toEqual({
      rank: 0,
      stream: 0,
      kind: 'run',
      name: 'F0',
      phase: 'F',
      stage: 0,
      microbatch: 1,
      start: 1,
      end: 4,
      instruction: 1,
    })
    expect(at(0, 4)).toBeUndefined()
    expect(events.map(({ start }) => start)).toEqual([0, 1, 2, 4, 5, 6, 9, 10])
  })

  it('knows how long a receive, a send into a full channel and a collective waited', () => {
    // The receive began at 2, its send at 4.
    expect(at(1, 0)).toMatchObject({ name: 'recv y[1]', ids: [10], wait: 2 })
    // The second send, from 5 to 8, could go when the first message was taken, at 6.
    expect(at(0, 3)).toMatchObject({ ids: [11], bytes: 12, wait: 1 })
    expect(at(0, 2)).not.toHaveProperty('wait')
    // Its receive, from 6, found it sent.
    expect(at(1, 1)).not.toHaveProperty('wait')
    // The collective began at 9 on rank 0 and at 10 on rank 1.
    expect(at(0, 5)).toMatchObject({ kind: 'collective', name: 'all-reduce sum y[1]', ids: [12], wait: 1 })
    expect(at(1, 2)).not.toHaveProperty('wait')
  })

  it('refuses times that are not of this program', () => {
    expect(() => traceFromStep(twoStages(), times.slice(1))).toThrow(/1 ranks for a program of 2/)
    const wrong =
      (triples: number[]): (() => unknown) =>
      () =>
        traceFromStep(twoStages(), [Float64Array.from(triples), times[1]!])
    expect(wrong([17, 0, 1])).toThrow(/timed instruction 17/)
    expect(wrong([1, 2, 1])).toThrow(/from 2 to 1/)
    expect(wrong([1, Number.NaN, 1])).toThrow(/from NaN/)
  })
})
