import { expect, test } from 'vitest'
import type { Program, Role } from '../src/program/index.ts'
import {
  compilePlan,
  nameOf,
  planOf,
  programOf,
  randomBatches,
  runOn,
  type StepRecord,
  type TrainingCase,
} from './support/trainingCase.ts'
import { digests } from './support/trainingRuns.ts'

const shared = { microbatches: 4, cut: 'by cost', optimizer: 'adamw' } as const
const cases: readonly TrainingCase[] = [
  { ...shared, family: 'gpt', tied: true, stages: 2, replicas: [2], schedule: '1f1b a' },
  { ...shared, family: 'llama', tied: false, stages: 2, replicas: [3, 1], schedule: '1f1b b' },
  { ...shared, family: 'gpt', tied: true, stages: 3, replicas: [1, 2], schedule: 'gpipe' },
]

const bits = (records: readonly StepRecord[]): unknown =>
  records.map(({ result, state }) => ({
    scalars: result.scalars,
    gradients: digests(result.tensors['gradients']!),
    state: digests(state),
  }))

/** The same program, in which the state it leaves is read off the last replica of each stage, and of the last stage that holds a tensor. */
function readFromLast(program: Program): Program {
  const holders = new Map<string, number>()
  for (const role of program.roles)
    for (const { pack } of role.buffers)
      for (const { name } of pack ?? []) holders.set(name, Math.max(holders.get(name) ?? 0, role.pipeline))
  const roles = program.roles.flatMap((role): Role[] => {
    const owner = {
      ...role,
      buffers: role.buffers.map((spec) => owned(spec, (name) => holders.get(name) === role.pipeline)),
    }
    const replicas = program.mesh.submeshes[role.pipeline]!.find(({ name }) => name === 'data')?.size ?? 1
    if (replicas === 1) return [owner]
    const others = { ...role, buffers: role.buffers.map((spec) => owned(spec, () => false)) }
    return Array.from({ length: replicas }, (_, data) => ({
      ...(data === replicas - 1 ? owner : others),
      name: `${role.name}, data=${data}`,
      where: { axis: 'data', modulus: replicas, remainder: data },
    }))
  })
  return { ...program, roles }
}

function owned(spec: Role['buffers'][number], isOwner: (name: string) => boolean): Role['buffers'][number] {
  if (spec.state !== true || spec.pack === undefined) return spec
  return { ...spec, pack: spec.pack.map((entry) => ({ ...entry, owned: isOwner(entry.name) })) }
}

test.each(cases.map((one) => [nameOf(one), one] as const))(
  '%s: a second run, every replica and every copy of a tied weight have the same bits',
  async (_, one) => {
    const compiled = compilePlan({ ...planOf(one), dtype: 'f32' })
    const program = programOf(compiled)
    expect(program.roles.every((role) => role.where === undefined)).toBe(true)
    const batches = randomBatches(compiled, 3)
    const first = await runOn('local', compiled, batches, program)
    expect(bits(await runOn('local', compiled, batches, program))).toEqual(bits(first))
    expect(bits(await runOn('local', compiled, batches, readFromLast(program)))).toEqual(bits(first))
    // What is compared is what was trained.
    expect(bits(first.slice(0, 1))).not.toEqual(bits(first.slice(2)))
  },
)
