import { describe, expect, it } from 'vitest'
import { codes, isCollective } from '../../../test/support/findings.ts'
import {
  drop,
  duplicate,
  move,
  placesOf,
  replace,
  tinyProgram,
  withInstructions,
} from '../../../test/support/programs.ts'
import type { Instruction, Program } from '../types.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 2 })

/** Every role changed alike, at its collective number `nth` of those that `group` names. */
function everywhere(
  program: Program,
  group: string,
  change: (list: readonly Instruction[], at: number) => Instruction[],
): string[] {
  let changed = program
  program.roles.forEach((role, index) => {
    const at = placesOf(
      role,
      (item) => item.kind === 'collective' && program.groups[item.group]!.name === group,
    )[0]
    if (at !== undefined) changed = withInstructions(changed, index, (list) => change(list, at))
  })
  return codes(changed)
}

describe('sums', () => {
  it('accepts what lowering makes', () => {
    expect(verifyProgram(base).findings).toEqual([])
    expect(verifyProgram(tinyProgram({ stages: 2, data: [3, 1], microbatches: 2 })).findings).toEqual([])
  })

  // The groups of this program: gradients of a stage, of the tied table, and the norm.
  it.each(['data', 'tied(0,1)', 'all'])('finds that nobody adds over %s', (group) => {
    expect(everywhere(base, group, (list, at) => drop(list, at))).toEqual(['SUM_MISSING'])
  })

  it('finds a sum made twice, though all ranks agree on it', () => {
    const twice = everywhere(base, 'data', (list, at) => {
      const again = list[at] as Extract<Instruction, { kind: 'collective' }>
      return list.toSpliced(at, 0, { ...again, collective: 10_000 + again.collective })
    })
    expect(twice).toEqual(['SUM_TWICE'])
  })

  it('finds a term that comes after the sum', () => {
    const early = everywhere(base, 'data', (list, at) => {
      const firstTerm = list.findIndex(
        (item) => item.kind === 'run' && item.writes.some(({ mode }) => mode === 'add'),
      )
      return move(list, at, firstTerm)
    })
    expect(early).toContain('SUM_LATE')
  })

  it('finds a sum over the wrong ranks, and the largest in place of the sum', () => {
    const data = base.groups.findIndex(({ name }) => name === 'data')
    const change = (with_: Partial<Extract<Instruction, { kind: 'collective' }>>): string[] =>
      everywhere(base, 'all', (list, at) =>
        replace(list, at, (item) => (item.kind === 'collective' ? { ...item, ...with_ } : item)),
      )
    expect(change({ group: data })).toEqual(['SUM_MISSING'])
    expect(change({ reduce: 'max' })).toContain('SUM_GROUP')
  })

  it('names the parameter that would train wrongly', () => {
    const at = placesOf(base.roles[0]!, isCollective)
    expect(at.length).toBeGreaterThan(1)
    const broken = base.roles.reduce(
      (program, _, role) =>
        withInstructions(program, role, (list) => list.filter((item) => item.kind !== 'collective')),
      base,
    )
    const messages = verifyProgram(broken).findings.map(({ message }) => message)
    expect(messages.some((message) => message.includes('transformer.wte.weight'))).toBe(true)
  })
})

// A check on the helper: a duplicate with the same id is a matching error, not one of sums.
it('an all-reduce repeated under its own id is refused before that', () => {
  expect(everywhere(base, 'data', (list, at) => duplicate(list, at))).toContain('COLLECTIVE_REPEATED')
})
