import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  drop,
  duplicate,
  swap,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import { rankCount, roleRanks } from '../mesh.ts'
import type { Instruction, Peer, Program } from '../types.ts'
import { verifyProgram } from './index.ts'
import { rankViews } from './ranks.ts'
import { RoleView } from './roleView.ts'

function codes(program: Program, ranksInFull: number): string[] {
  return [...new Set(verifyProgram(program, { ranksInFull }).findings.map(({ code }) => code))].sort()
}

function looked(program: Program): number[] {
  const roles = program.roles.map((role, index) => new RoleView(index, role, roleRanks(program.mesh, role)))
  return rankViews(program, roles, 0).map(({ rank }) => rank)
}

describe('representatives', () => {
  it.each([
    // One of each stage where all have as many replicas; else the smallest counts of the same ratio.
    [{ stages: 3, data: 4 }, [0, 4, 8]],
    [{ stages: 2, data: [2, 4] }, [0, 2, 3]],
    [{ stages: 2, data: [6, 4] }, [0, 1, 2, 6, 7]],
    [{ stages: 2, data: [3, 2] }, [0, 1, 2, 3, 4]],
  ] as const)('of %o are ranks %o', (plan, ranks) => {
    expect(looked(tinyProgram({ ...plan, microbatches: 1 })).sort((a, b) => a - b)).toEqual(ranks)
  })

  it('are all ranks where copies talk to each other', () => {
    const program = tinyProgram({ stages: 2, data: 4, microbatches: 1 })
    const withAxes = (axes: Peer['axes']): Program =>
      withRole(program, 0, (role) => ({ ...role, peers: role.peers.map((peer) => ({ ...peer, axes })) }))
    for (const [scale, offset] of [
      [1, 1],
      [-1, 3],
      [0, 0],
    ] as const)
      expect(looked(withAxes([{ name: 'data', scale, offset, divisor: 1 }]))).toHaveLength(8)
  })

  it('keep a group together that agrees on a coordinate', () => {
    const unequal = tinyProgram({ stages: 2, data: [2, 4], microbatches: 1 })
    const groups = unequal.groups.map((group) => ({ ...group, axes: ['pipeline'] }))
    expect(looked({ ...unequal, groups })).toHaveLength(6)
    const equal = tinyProgram({ stages: 2, data: 4, microbatches: 1 })
    expect(
      looked({ ...equal, groups: equal.groups.map((group) => ({ ...group, axes: ['pipeline'] })) }),
    ).toEqual([0, 4])
  })

  const programs = [
    tinyProgram({ stages: 2, data: 4, microbatches: 2 }),
    tinyProgram({ stages: 2, data: [4, 2], microbatches: 2 }),
    tinyProgram({ stages: 2, data: [6, 4], microbatches: 1 }),
  ]

  it('are accepted and refused for the same reasons as all ranks', () => {
    for (const program of programs) expect(codes(program, 0)).toEqual([])
    const changes = [drop, duplicate, swap]
    let refused = 0
    fc.assert(
      fc.property(fc.nat(2), fc.nat(), fc.nat(2), fc.nat(), fc.nat(), (which, role, change, a, b) => {
        const base = programs[which]!
        const at = role % base.roles.length
        const { length } = base.roles[at]!.code
        const mutated = withInstructions(base, at, (list: Instruction[]) =>
          changes[change]!(list, a % length, b % length),
        )
        const found = codes(mutated, 0)
        expect(found).toEqual(codes(mutated, Number.POSITIVE_INFINITY))
        if (found.length > 0) refused++
      }),
      { numRuns: 60, seed: 4 },
    )
    expect(refused).toBeGreaterThan(30)
  })

  it('make 8 stages of 2048 replicas as quick to verify as of one', () => {
    const program = tinyProgram({ stages: 8, data: 2048, microbatches: 8 })
    expect(rankCount(program.mesh)).toBe(16_384)
    const before = process.cpuUsage()
    expect(verifyProgram(program).findings).toEqual([])
    const { user } = process.cpuUsage(before)
    expect(user / 1e6).toBeLessThan(1)
    const broken = withInstructions(program, 3, (list) =>
      drop(
        list,
        list.findIndex(({ kind }) => kind === 'exchange'),
      ),
    )
    expect(verifyProgram(broken).findings[0]).toMatchObject({ code: 'TRANSFER_UNMATCHED' })
  })
})
