import { describe, expect, it } from 'vitest'
import { type TinyPlan, tinyPlan } from '../../../test/support/programs.ts'
import { elementCount } from '../../graph/index.ts'
import { readInstructions } from '../columns.ts'
import { formatOperand } from '../text/operands.ts'
import type { Program, Role } from '../types.ts'
import { verifyProgram } from '../verify/index.ts'
import { lowerPlan } from './index.ts'

const wte = 8 * 4

/** A schedule in full, for a tied GPT of a layer for each stage. */
function lowered(placement: readonly number[], lists: readonly string[], more: TinyPlan = {}): Program {
  const text = [
    'schedule 1',
    `stages ${placement.length} on ${placement.join(',')}`,
    'microbatches 2',
    ...lists.map((list, actor) => `actor ${actor}: ${list}`),
  ].join('\n')
  const { plan, model } = tinyPlan({
    stages: lists.length,
    layers: placement.length,
    microbatches: 2,
    schedule: { text },
    ...more,
  })
  const program = lowerPlan(plan, model, { gradients: true })
  expect(verifyProgram(program).findings).toEqual([])
  return program
}

/** What runs do with a buffer, in order: `FB1 = g0{0:32}`, `B0 += g0{0:32}`. */
function writesTo(program: Program, role: Role, buffer: string): string[] {
  return readInstructions(role.code).flatMap((instruction) =>
    instruction.kind !== 'run' || instruction.action === undefined
      ? []
      : instruction.writes
          .filter(({ value }) => role.buffers[role.values[value]!.buffer]!.name === buffer)
          .map(
            (write) =>
              `${program.tasks[instruction.task]!.name} ${write.mode === 'add' ? '+=' : '='} ${formatOperand(role, write)}`,
          ),
  )
}

const packOf = (role: Role, buffer: string): (string | boolean)[][] =>
  role.buffers.find(({ name }) => name === buffer)!.pack!.map(({ name, owned }) => [name, owned])

describe('a tied parameter', () => {
  it('is kept once by an actor that has both its stages, and set by whichever backward comes first', () => {
    const program = lowered([0, 0], ['0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1'])
    const role = program.roles[0]!
    expect(packOf(role, 'w0')[0]).toEqual(['transformer.wte.weight', true])
    expect(packOf(role, 'w1').flat()).not.toContain('transformer.wte.weight')
    const total = role.buffers
      .filter(({ name }) => /^w\d$/.test(name))
      .reduce((sum, { shape }) => sum + shape[0]!, 0)
    const { model } = tinyPlan({ layers: 2 })
    expect(total).toBe(model.parameters.reduce((sum, { shape }) => sum + elementCount(shape), 0))
    const shared = `g0{0:${wte}}`
    const rest = `g0{${wte}:${role.buffers.find(({ name }) => name === 'g0')!.shape[0]}}`
    expect(writesTo(program, role, 'g0')).toEqual([
      `FB1 = ${shared}`,
      `B0 += ${shared}`,
      `B0 = ${rest}`,
      `FB1 += ${shared}`,
      `B0 += ${shared}`,
      `B0 += ${rest}`,
    ])
    // Nobody else has a term of it.
    expect(program.groups.filter(({ name }) => name.startsWith('tied'))).toEqual([])
  })

  it('is kept once by each of two actors, and added over both', () => {
    // Embedding on actor 0, head on actor 1.
    const program = lowered(
      [0, 1, 0, 1],
      ['0F0 2F0 2B0 0B0 0F1 2F1 2B1 0B1', '1F0 3F0 3B0 1B0 1F1 3F1 3B1 1B1'],
      { data: [1, 2] },
    )
    expect(program.groups.find(({ name }) => name.startsWith('tied'))).toMatchObject({ pipelines: [0, 1] })
    expect(packOf(program.roles[0]!, 'w0')[0]).toEqual(['transformer.wte.weight', true])
    expect(packOf(program.roles[1]!, 'w3')[0]).toEqual(['transformer.wte.weight', false])
  })

  it('lies beside the rest of its home where the actor at both ends of the model has stages between', () => {
    const program = lowered(
      [0, 1, 1, 0],
      ['0F0 3F0 3B0 0B0 0F1 3F1 3B1 0B1', '1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1'],
      { data: 2 },
    )
    const [first] = program.roles
    const sums = first!.buffers.find(({ name }) => name === 'g0')!.pack!.map(({ sumOver }) => sumOver)
    expect(new Set(sums)).toEqual(new Set(['data']))
  })
})

describe('recomputation', () => {
  it('comes right before the first half of the backward, and lets go of what it took', () => {
    const program = lowered([0, 1], ['0F0 0F1 0I0 0W0 0B1', '1F0 1B0 1F1 1I1 1W1'], {
      more: { recompute: 'full' },
    })
    const [first, last] = program.roles.map((role) =>
      readInstructions(role.code).flatMap((instruction) => {
        if (instruction.kind !== 'run' || instruction.action === undefined) return []
        const { phase, microbatch } = role.actions[instruction.action]!
        return phase === 'U' ? [] : [`${phase}${microbatch}`]
      }),
    )
    expect(first).toEqual(['F0', 'F1', 'R0', 'I0', 'W0', 'R1', 'B1'])
    // A forward and its own backward at once hold nothing.
    expect(last).toEqual(['FB0', 'F1', 'R1', 'I1', 'W1'])
  })
})
