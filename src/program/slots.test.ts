import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { assignSlots } from './slots.ts'
import type { Instruction } from './types.ts'

function touch(...values: number[]): Instruction {
  const reads = values.map((value) => ({ value }))
  return { kind: 'run', stream: 0, task: 0, reads, writes: [] }
}

function free(...values: number[]): Instruction {
  return { kind: 'free', values }
}

const plain = (...buffers: number[]): { buffer: number }[] => buffers.map((buffer) => ({ buffer }))

describe('slots', () => {
  it('are the lowest that are free at the first access, by buffer', () => {
    const list = [touch(0), touch(1), free(0), touch(2, 3), free(1), touch(4)]
    const { slots, counts } = assignSlots([{}, {}], plain(0, 0, 0, 1, 0), list)
    expect(slots).toEqual([0, 1, 0, 0, 1])
    expect(counts).toEqual([2, 1])
  })

  it('of state and constants are 0, whatever is freed', () => {
    const list = [touch(0, 1), free(0), touch(2), touch(3)]
    const buffers = [{ state: true }, { constant: { isZero: [] } }]
    const { slots, counts } = assignSlots(buffers, plain(0, 0, 0, 1), list)
    expect(slots).toEqual([0, 0, 0, 0])
    expect(counts).toEqual([1, 1])
  })

  it('of a buffer that nothing touches are none', () => {
    expect(assignSlots([{}], [], []).counts).toEqual([0])
  })

  it('are as many as values live at once, and no two of those share one', () => {
    // Each value is touched at `from` and freed at `to`.
    const spans = fc.array(
      fc.tuple(fc.nat(20), fc.nat(20)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const),
      { maxLength: 15 },
    )
    fc.assert(
      fc.property(spans, (values) => {
        const list: Instruction[] = []
        let most = 0
        for (let time = 0; time <= 20; time++) {
          values.forEach(([from], value) => {
            if (from === time) list.push(touch(value))
          })
          most = Math.max(most, values.filter(([from, to]) => from <= time && time <= to).length)
          values.forEach(([, to], value) => {
            if (to === time) list.push(free(value))
          })
        }
        const { slots, counts } = assignSlots([{}], plain(...values.map(() => 0)), list)
        expect(counts).toEqual([most])
        values.forEach(([from, to], a) => {
          values.forEach(([otherFrom, otherTo], b) => {
            if (a < b && from <= otherTo && otherFrom <= to) expect(slots[a]).not.toBe(slots[b])
          })
        })
      }),
    )
  })
})
