import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mostLive } from '../../test/support/liveValues.ts'
import { type TinyPlan, tinyProgram } from '../../test/support/programs.ts'
import { arenaBytes, slotBytes } from './accesses.ts'
import { assignPools, assignSlots } from './slots.ts'
import { parseProgram } from './text/parse.ts'
import { printProgram } from './text/print.ts'
import type { BufferSpec, Instruction } from './types.ts'

function touch(...values: number[]): Instruction {
  const reads = values.map((value) => ({ value }))
  return { kind: 'run', stream: 0, task: 0, reads, writes: [] }
}

function free(...values: number[]): Instruction {
  return { kind: 'free', values }
}

const plain = (...buffers: number[]): { buffer: number }[] => buffers.map((buffer) => ({ buffer }))

const vector = (elements: number, rest: Partial<BufferSpec> = {}): Omit<BufferSpec, 'pool'> => ({
  name: 'b',
  dtype: 'f64',
  shape: [elements],
  tier: 'device',
  ...rest,
})

describe('pools', () => {
  it('are shared by buffers of one dtype, element count and tier, but not by state and constants', () => {
    const buffers = [
      vector(4),
      vector(4, { shape: [2, 2] }),
      vector(4, { dtype: 'i32' }),
      vector(4, { state: true }),
      vector(5),
      vector(4, { tier: 'host' }),
      vector(4, { constant: { isZero: [] } }),
      vector(5),
      vector(4, { state: true }),
    ]
    expect(assignPools(buffers)).toEqual([0, 0, 1, 2, 3, 4, 5, 3, 6])
  })
})

describe('slots', () => {
  const one = [{ pool: 0 }]

  it('are those that have been free the longest at the first access, by pool', () => {
    const list = [touch(0), touch(1), free(1), free(0), touch(2, 3), free(2), touch(4), free(3), touch(5)]
    const { slots, pools } = assignSlots(
      [{ pool: 0 }, { pool: 1 }, { pool: 0 }],
      plain(0, 2, 0, 1, 2, 1),
      list,
    )
    expect(slots).toEqual([0, 1, 1, 0, 0, 0])
    expect(pools).toEqual([{ slots: 2 }, { slots: 1 }])
  })

  it('of state and constants are 0, whatever is freed', () => {
    const list = [touch(0, 1), free(0), touch(2), touch(3)]
    const buffers = [
      { pool: 0, state: true },
      { pool: 1, constant: { isZero: [] } },
    ]
    const { slots, pools } = assignSlots(buffers, plain(0, 0, 0, 1), list)
    expect(slots).toEqual([0, 0, 0, 0])
    expect(pools).toEqual([{ slots: 1 }, { slots: 1 }])
  })

  it('of a buffer that nothing touches are none', () => {
    expect(assignSlots(one, [], []).pools).toEqual([{ slots: 0 }])
  })

  it('are one where equal buffers are live one after the other', () => {
    const text = `program 1
work infer: 1 stages, 1 microbatches
channel slots 1
mesh pipeline=0: data=1
stream load: host
role pipeline=0
  buffer a: f64[2, 3]
  buffer b: f64[6]
  load move in x -> a ; free a
  load move in x -> b ; free b
`
    const [role] = parseProgram(text).roles
    expect(role!.pools).toEqual([{ slots: 1 }])
    expect(arenaBytes(role!)).toBe(64)
    const again = printProgram(parseProgram(text), { full: true })
    expect(again).toContain('buffer b: f64[6]    with a')
    expect(parseProgram(again)).toStrictEqual(parseProgram(text))
  })

  it('are as many as values live at once, and no two of those share one', () => {
    // Each value is of one of two buffers of one pool, touched at `from` and freed at `to`.
    const spans = fc.array(
      fc
        .tuple(fc.nat(20), fc.nat(20), fc.nat(1))
        .map(([a, b, buffer]) => [Math.min(a, b), Math.max(a, b), buffer] as const),
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
        const { slots, pools } = assignSlots(
          [{ pool: 0 }, { pool: 0 }],
          plain(...values.map(([, , buffer]) => buffer)),
          list,
        )
        expect(pools).toEqual([{ slots: most }])
        values.forEach(([from, to], a) => {
          values.forEach(([otherFrom, otherTo], b) => {
            if (a < b && from <= otherTo && otherFrom <= to) expect(slots[a]).not.toBe(slots[b])
          })
        })
      }),
    )
  })
})

describe('the arena of a compiled program', () => {
  it.each([
    { stages: 2, data: 2, microbatches: 4 },
    { stages: 4, microbatches: 5, schedule: '1f1b b', model: 'llama' },
    { stages: 3, data: [1, 2, 1], tied: false },
  ] satisfies TinyPlan[])('is what values take that are live at once: %o', (plan) => {
    for (const role of tinyProgram(plan).roles) {
      const kinds = new Map<string, number[]>()
      role.buffers.forEach(({ dtype, shape, tier, state, constant }, index) => {
        const own = state === true || constant !== undefined
        const elements = shape.reduce((product, size) => product * size, 1)
        const key = own ? `${index}` : `${dtype} ${elements} ${tier}`
        kinds.set(key, [...(kinds.get(key) ?? []), index])
      })
      let bytes = 0
      for (const indices of kinds.values()) {
        const { dtype, shape, state, constant } = role.buffers[indices[0]!]!
        const size = shape.reduce((product, dim) => product * dim, dtype === 'f64' ? 8 : 4)
        const kept = state === true || constant !== undefined
        bytes += (kept ? 1 : mostLive(role, new Set(indices))) * Math.ceil(size / 64) * 64
      }
      expect(arenaBytes(role)).toBe(bytes)
      // Less than every buffer on its own would take.
      const apart = role.buffers.reduce((sum, buffer, index) => {
        const kept = buffer.state === true || buffer.constant !== undefined
        return sum + (kept ? 1 : mostLive(role, new Set([index]))) * slotBytes(buffer)
      }, 0)
      expect(bytes).toBeLessThan(apart)
    }
  })
})
