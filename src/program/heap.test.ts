import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Heap } from './heap.ts'

describe('a heap', () => {
  it('gives what was pushed in order, least first', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), (items) => {
        const heap = new Heap<number>((a, b) => a < b)
        for (const item of items) heap.push(item)
        expect(items.map(() => heap.pop())).toEqual(items.toSorted((a, b) => a - b))
        expect(heap.pop()).toBeUndefined()
      }),
    )
  })

  it('gives the least of what is there at the time', () => {
    // A number is pushed, undefined takes one out.
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(20), { nil: undefined })), (steps) => {
        const heap = new Heap<number>((a, b) => a < b)
        let there: number[] = []
        for (const step of steps) {
          if (step !== undefined) {
            heap.push(step)
            there = [...there, step].sort((a, b) => a - b)
          } else expect(heap.pop()).toBe(there.shift())
        }
      }),
    )
  })
})
