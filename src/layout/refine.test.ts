import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { coordinatesAt, meshSize, placeAlong } from './mesh.ts'
import { refineAxes } from './refine.ts'
import type { MeshAxis } from './types.ts'

const axes = (sizes: Readonly<Record<string, number>>): MeshAxis[] =>
  Object.entries(sizes).map(([name, size]) => ({ name, size }))

function refine(dense: Readonly<Record<string, number>>, experts: Readonly<Record<string, number>>): string {
  const refined = refineAxes(axes(dense), axes(experts))
  const made = (of: Readonly<Record<string, readonly string[]>>): string =>
    Object.entries(of)
      .map(([name, parts]) => `${name}: ${parts.join(' ')}`)
      .join(', ')
  return `${refined.axes.map(({ name, size }) => `${name}=${size}`).join(' ')}; ${made(refined.experts)}`
}

function refused(dense: Readonly<Record<string, number>>, experts: Readonly<Record<string, number>>): string {
  try {
    refine(dense, experts)
  } catch (error) {
    const { code, message, hint } = error as { code: string; message: string; hint?: string }
    return `${code} ${message}; ${hint}`
  }
  throw new Error('not refused')
}

describe('refineAxes', () => {
  it('splits axes only where the other factorisation ends inside', () => {
    expect(refine({ data: 4, context: 1, tensor: 1 }, { expertData: 2, expert: 2, expertTensor: 1 })).toBe(
      'data.expertData=2 data.expert=2; expertData: data.expertData, expert: data.expert, expertTensor: ',
    )
    expect(refine({ data: 2, tensor: 4 }, { expertData: 2, expert: 4 })).toBe(
      'data=2 tensor=4; expertData: data, expert: tensor',
    )
    expect(refine({ data: 4, context: 2, tensor: 4 }, { expertData: 2, expert: 8, expertTensor: 2 })).toBe(
      'data.expertData=2 data.expert=2 context=2 tensor.expert=2 tensor.expertTensor=2; ' +
        'expertData: data.expertData, expert: data.expert context tensor.expert, expertTensor: tensor.expertTensor',
    )
    expect(refine({ data: 1, 'tensor.kv': 2, 'tensor.group': 2 }, { expertData: 4 })).toBe(
      'tensor.kv=2 tensor.group=2; expertData: tensor.kv tensor.group',
    )
  })

  it('says what crosses, and the nearest sizes that nest', () => {
    // 3 ranks of tensor, 2 of expert: the second block of experts would begin inside a tensor group.
    expect(refused({ data: 4, tensor: 3 }, { expertData: 6, expert: 2 })).toBe(
      'LAYOUT_FACTORISATION data=4, tensor=3 and expertData=6, expert=2 do not nest: tensor=3 and expert=2 overlap, ' +
        'and neither ends where ranks of the other do; expert=1 or 3 would work',
    )
    expect(refused({ data: 4, tensor: 2 }, { expertData: 2, expert: 2 })).toContain(
      'which makes 4, but the dense part as data=4, tensor=2, which makes 8',
    )
    expect(refused({ data: 4, data2: 0 }, { expertData: 4 })).toContain('LAYOUT_MESH')
  })

  it('gives every rank the coordinates of both factorisations, from as few axes as can be', () => {
    // Both are made by joining neighbours of a third, so that they nest.
    const cut = fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 5 }),
      dense: fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
      experts: fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
    })
    const join = (sizes: readonly number[], ends: readonly boolean[], prefix: string): MeshAxis[] => {
      const joined: { name: string; size: number }[] = []
      for (const [index, size] of sizes.entries()) {
        if (index === 0 || ends[index] === true) joined.push({ name: `${prefix}${index}`, size: 1 })
        joined.at(-1)!.size *= size
      }
      return joined
    }
    fc.assert(
      fc.property(cut, (made) => {
        const dense = join(made.sizes, made.dense, 'd')
        const experts = join(made.sizes, made.experts, 'e')
        const refined = refineAxes(dense, experts)
        const mesh = { axes: refined.axes }
        expect(new Set(refined.axes.map(({ name }) => name)).size).toBe(refined.axes.length)
        for (const [own, parts] of [
          [dense, refined.dense],
          [experts, refined.experts],
        ] as const) {
          expect(Object.values(parts).flat()).toEqual(refined.axes.map(({ name }) => name))
          for (let place = 0; place < meshSize(mesh); place++) {
            const coordinates = coordinatesAt(mesh, place)
            const expected = coordinatesAt({ axes: own }, place)
            for (const { name } of own)
              expect(placeAlong(mesh, parts[name]!, coordinates)).toBe(expected[name])
          }
        }
        const boundaries = (sizes: readonly MeshAxis[]): number[] => {
          let product = 1
          return sizes.toReversed().map(({ size }) => (product *= size))
        }
        const needed = new Set([...boundaries(dense), ...boundaries(experts)].filter((count) => count > 1))
        expect(refined.axes.length).toBe(needed.size)
      }),
      { numRuns: 100 },
    )
  })
})
