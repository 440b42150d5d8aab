import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  coordinatesOf,
  groupRanks,
  groupSize,
  peerRank,
  rankAt,
  rankCount,
  replicaIndex,
  roleRanks,
} from './mesh.ts'
import type { Group, ProgramMesh, Role } from './types.ts'

const axes = fc
  .uniqueArray(fc.constantFrom('data', 'tensor', 'context'), { maxLength: 3 })
  .chain((names) =>
    fc.tuple(...names.map((name) => fc.integer({ min: 1, max: 4 }).map((size) => ({ name, size })))),
  )
const meshes: fc.Arbitrary<ProgramMesh> = fc
  .array(axes, { minLength: 1, maxLength: 4 })
  .map((submeshes) => ({ submeshes }))

const groups: fc.Arbitrary<Group> = fc
  .record({
    axes: fc.uniqueArray(fc.constantFrom('pipeline', 'data', 'tensor', 'context'), { minLength: 1 }),
    pipelines: fc.option(fc.uniqueArray(fc.nat(3), { minLength: 1 }), { nil: undefined }),
  })
  .map(({ axes: names, pipelines }) =>
    pipelines === undefined ? { name: 'g', axes: names } : { name: 'g', axes: names, pipelines },
  )

function all(mesh: ProgramMesh): number[] {
  return Array.from({ length: rankCount(mesh) }, (_, rank) => rank)
}

describe('the mesh', () => {
  it('numbers ranks pipeline coordinate by pipeline coordinate, the last axis fastest', () => {
    const mesh = {
      submeshes: [
        [{ name: 'data', size: 2 }],
        [
          { name: 'data', size: 2 },
          { name: 'tensor', size: 3 },
        ],
      ],
    }
    expect(rankCount(mesh)).toBe(8)
    expect(coordinatesOf(mesh, 1)).toEqual({ pipeline: 0, axes: { data: 1 } })
    expect(coordinatesOf(mesh, 6)).toEqual({ pipeline: 1, axes: { data: 1, tensor: 1 } })
    expect(rankAt(mesh, { pipeline: 1, axes: { data: 1, tensor: 3 } })).toBeUndefined()
    expect(rankAt(mesh, { pipeline: 2, axes: {} })).toBeUndefined()
  })

  it('finds every rank at its coordinates', () => {
    fc.assert(
      fc.property(meshes, (mesh) => {
        for (const rank of all(mesh)) expect(rankAt(mesh, coordinatesOf(mesh, rank))).toBe(rank)
      }),
    )
  })

  it('has as members of a group the ranks that agree on all other axes', () => {
    fc.assert(
      fc.property(meshes, groups, (mesh, drawn) => {
        const inside = drawn.pipelines?.filter((pipeline) => pipeline < mesh.submeshes.length)
        const group = inside === undefined ? drawn : { ...drawn, pipelines: inside }
        for (const rank of all(mesh)) {
          const own = coordinatesOf(mesh, rank)
          const expected = all(mesh).filter((other) => {
            const there = coordinatesOf(mesh, other)
            const reachable = group.axes.includes('pipeline')
              ? (group.pipelines?.includes(there.pipeline) ?? true)
              : there.pipeline === own.pipeline
            const agrees = Object.entries(there.axes).every(
              ([axis, coordinate]) => group.axes.includes(axis) || own.axes[axis] === coordinate,
            )
            return reachable && agrees
          })
          expect(groupRanks(mesh, own, group)).toEqual(expected)
        }
      }),
    )
  })

  it('counts replicas along all data axes, and along no other', () => {
    const mesh = {
      submeshes: [
        [
          { name: 'data.replica', size: 2 },
          { name: 'tensor', size: 2 },
          { name: 'data.shard', size: 3 },
          { name: 'database', size: 1 },
        ],
        [{ name: 'data', size: 4 }],
        [{ name: 'tensor', size: 2 }],
      ],
    }
    const places = all(mesh).map((rank) => {
      const { pipeline, axes } = coordinatesOf(mesh, rank)
      const { index, count } = replicaIndex(mesh, pipeline, axes)
      return `${index}/${count}`
    })
    const six = (...indices: number[]): string[] => indices.map((index) => `${index}/6`)
    expect(places.slice(0, 12)).toEqual(six(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5))
    expect(places.slice(12)).toEqual(['0/4', '1/4', '2/4', '3/4', '0/1', '0/1'])
  })

  it('finds peers by their coordinates, rounded down', () => {
    const mesh = { submeshes: [[{ name: 'data', size: 4 }], [{ name: 'data', size: 2 }]] }
    const peer = { pipeline: 1, axes: [{ name: 'data', scale: 2, offset: 0, divisor: 4 }] }
    expect(
      all(mesh)
        .slice(0, 4)
        .map((rank) => peerRank(mesh, coordinatesOf(mesh, rank), peer)),
    ).toEqual([4, 4, 5, 5])
    expect(peerRank(mesh, coordinatesOf(mesh, 3), { pipeline: 1, axes: [] })).toBeUndefined()
    expect(peerRank(mesh, coordinatesOf(mesh, 4), { pipeline: 1, axes: [] })).toBeUndefined()
  })

  it('gives a role the ranks whose coordinate leaves its remainder', () => {
    const mesh = { submeshes: [[{ name: 'data', size: 1 }], [{ name: 'data', size: 5 }]] }
    const role = { pipeline: 1, where: { axis: 'data', modulus: 2, remainder: 1 } } as Role
    expect(roleRanks(mesh, role)).toEqual([2, 4])
  })
})

it('counts the members of a group as it lists them', () => {
  const data = (size: number) => [{ name: 'data', size }]
  const mesh = { submeshes: [data(3), data(2), [...data(2), { name: 'tensor', size: 2 }]] }
  const groups = [
    { name: 'data', axes: ['data'] },
    { name: 'stages', axes: ['pipeline'] },
    { name: 'ends', axes: ['pipeline'], pipelines: [0, 2] },
    { name: 'tied', axes: ['pipeline', 'data'], pipelines: [0, 1] },
    { name: 'all', axes: ['pipeline', 'data', 'tensor'] },
  ]
  for (let rank = 0; rank < rankCount(mesh); rank++)
    for (const group of groups) {
      const own = coordinatesOf(mesh, rank)
      expect(groupSize(mesh, own, group)).toBe(groupRanks(mesh, own, group).length)
    }
})
