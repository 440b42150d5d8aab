import { describe, expect, test } from 'vitest'
import { MeshwrightError } from '../src/base/index.ts'
import { serial } from '../src/cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator, createLocalEngine } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import {
  placeStages,
  type ScheduleParameters,
  scheduleChain,
  scheduleGenerators,
} from '../src/schedule/index.ts'
import { type Factors, pairwiseSubset } from './support/pairwise.ts'
import { replay } from './support/replay.ts'
import {
  compilePlan,
  programOf,
  randomBatches,
  runOn,
  type StepRecord,
  stateOf,
} from './support/trainingCase.ts'
import { digests } from './support/trainingRuns.ts'

const steps = 2
const tolerance = 1e-9

interface ScheduledCase {
  /** The name of a generator and parameters that differ from its defaults, as JSON. */
  readonly schedule: string
  readonly actors: number
  readonly replicas: 'one' | 'two' | 'first two' | 'four'
  readonly microbatches: number
  readonly model: 'gpt' | 'llama' | 'llama tied'
  /** As a plan says it, as JSON. */
  readonly recompute: string
  /** As a plan says it, as JSON. */
  readonly zero: string
}

const full = process.env['MESHWRIGHT_FULL'] === '1'

const defaults = [...scheduleGenerators.keys()].map((name) => `${name} {}`)

/** Every generator with one parameter changed to another value, in full to several. */
function variations(): string[] {
  return [...scheduleGenerators.values()].flatMap(({ name, parameters }) =>
    Object.entries(parameters).flatMap(([key, rule]) => {
      const values =
        rule.kind === 'boolean'
          ? [false, true]
          : rule.kind === 'choice'
            ? Object.keys(rule.choices)
            : [rule.minimum + 2, rule.minimum + 1]
      const others = values.filter((value) => value !== rule.default)
      return (full ? others : others.slice(0, 1)).map(
        (value) => `${name} ${JSON.stringify({ [key]: value })}`,
      )
    }),
  )
}

function split(schedule: string): { name: string; parameters: ScheduleParameters } {
  const space = schedule.indexOf(' ')
  return { name: schedule.slice(0, space), parameters: JSON.parse(schedule.slice(space + 1)) }
}

/** ZeRO needs replicas, equally many everywhere, and copies of shards need four. */
function isShared({ zero, replicas, actors }: ScheduledCase): boolean {
  if (replicas === 'four' && actors > 2) return false
  if (zero === '0') return replicas !== 'four'
  return zero.includes('shards') ? replicas === 'four' : replicas === 'two'
}

const known = new Map<string, boolean>()

function isScheduled(one: ScheduledCase): boolean {
  const { schedule, actors, microbatches } = one
  if (!isShared(one)) return false
  const key = `${schedule} ${actors} ${microbatches}`
  const found = known.get(key)
  if (found !== undefined) return found
  const { name, parameters } = split(schedule)
  let allowed = true
  try {
    scheduleChain(name, { actors, microbatches }, parameters)
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    allowed = false
  }
  known.set(key, allowed)
  return allowed
}

const factors: Factors<ScheduledCase> = {
  schedule: full ? [...defaults, ...variations()] : defaults,
  actors: full ? [1, 2, 3, 4] : [2, 3, 4],
  replicas: ['one', 'two', 'first two', 'four'],
  microbatches: full ? [1, 2, 4, 6] : [1, 4, 6],
  model: ['gpt', 'llama', 'llama tied'],
  recompute: full ? ['"none"', '"attention"', '"full"', '[0,"head"]'] : ['"none"', '"attention"', '"full"'],
  zero: [
    ...['0', '1', '2', '3'],
    '{"stage":3,"shards":2}',
    '{"stage":3,"shards":2,"replicas":"sharded","gather":"unit","reduce":"unit"}',
    ...(full
      ? ['{"stage":3,"keepLast":true,"prefetch":false}', '{"stage":1,"shards":2,"replicas":"sharded"}']
      : []),
  ],
}

/** Half as many values of each, so that every schedule is met about half as often. */
const fewer: Factors<ScheduledCase> = {
  schedule: variations(),
  actors: [1, 4],
  replicas: ['one', 'first two'],
  microbatches: [2, 4],
  model: ['gpt', 'llama tied'],
  recompute: ['"none"', '[0,"head"]'],
  zero: ['0'],
}

const models = {
  gpt: (layers: number) => `gpt:layers=${layers},hidden=8,heads=2,context=4,vocab=16,mlp=8`,
  llama: (layers: number) =>
    `llama:layers=${layers},hidden=8,heads=2,kvHeads=1,mlp=8,context=4,vocab=16,tied=false`,
  'llama tied': (layers: number) =>
    `llama:layers=${layers},hidden=8,heads=2,kvHeads=1,mlp=8,context=4,vocab=16,tied=true`,
}

function planOf({
  schedule,
  actors,
  replicas,
  microbatches,
  model,
  recompute,
  zero,
}: ScheduledCase): Record<string, unknown> {
  const { name, parameters } = split(schedule)
  const stages = placeStages(name, actors, parameters).length
  return {
    meshwright: 1,
    model: models[model](stages),
    mesh: {
      pipeline: actors,
      data: Array.from({ length: actors }, (_, actor) =>
        replicas === 'four' ? 4 : replicas === 'two' || (replicas === 'first two' && actor === 0) ? 2 : 1,
      ),
    },
    schedule: { name, ...parameters },
    recompute: JSON.parse(recompute),
    zero: JSON.parse(zero),
    batch: { samples: (replicas === 'four' ? 4 : 2) * microbatches, microbatches },
    dtype: 'f64',
    learningRate: { kind: 'constant', peak: 0.01 },
    clip: 0.05,
    reduction: { bucketBytes: 1024 },
  }
}

const serialRuns = new Map<string, StepRecord[]>()

/** The same for all plans of a model and a batch. */
async function serialRun({ model }: ScheduledCase, compiled: Compiled): Promise<StepRecord[]> {
  const key = `${model} ${compiled.plan.stages.length} ${compiled.plan.samples}`
  const found = serialRuns.get(key)
  if (found !== undefined) return found
  const run = await runOn('emulator', serial(compiled), randomBatches(compiled, steps))
  serialRuns.set(key, run)
  return run
}

async function expectEqual(kind: 'local' | 'emulator', one: ScheduledCase): Promise<void> {
  const compiled = compilePlan(planOf(one))
  const program = programOf(compiled)
  const expected = await serialRun(one, compiled)
  const engine = kind === 'local' ? await createLocalEngine(program) : createEmulator(program)
  try {
    const differences = await checkEquality({
      actual: engine,
      expected: replay(program, expected),
      state: stateOf(compiled),
      optimizer: compiled.optimizer,
      learningRate: learningRateOf(compiled.document, steps),
      batches: randomBatches(compiled, steps),
      tolerance,
    })
    expect(differences.filter(({ equal }) => !equal)).toEqual([])
    expect(differences.find(({ kind }) => kind === 'gradient')!.count).toBe(compiled.model.parameters.length)
  } finally {
    await engine.stop()
  }
}

/** Every schedule with every stage of ZeRO and every kind of recomputation: pairs leave some of the threes out. */
const triples: ScheduledCase[] = defaults.flatMap((schedule) =>
  ['0', '1', '2', '3'].flatMap((zero) =>
    ['"none"', '"attention"', '"full"'].map(
      (recompute): ScheduledCase => ({
        schedule,
        actors: 2,
        replicas: zero === '0' ? 'one' : 'two',
        microbatches: 4,
        model: 'gpt',
        recompute,
        zero,
      }),
    ),
  ),
)

const cases = [
  ...pairwiseSubset(factors, isScheduled),
  ...(full ? triples : pairwiseSubset(fewer, isScheduled)),
]
const nameOf = ({
  schedule,
  actors,
  replicas,
  microbatches,
  model,
  recompute,
  zero,
}: ScheduledCase): string =>
  `${schedule}, ${actors} actors of ${replicas}, ${microbatches} micro-batches, ${model}, recompute ${recompute}, zero ${zero}`

describe('every schedule trains as serial training does', () => {
  test('every generator has cases', () => {
    expect(new Set(cases.map(({ schedule }) => split(schedule).name))).toEqual(
      new Set(scheduleGenerators.keys()),
    )
  })

  test.each(cases.map((one) => [nameOf(one), one] as const))('%s', (_, one) => expectEqual('emulator', one))
})

describe('recomputing changes no bit', () => {
  test.each(['gpipe {}', '1f1b {}', 'zb-v {}', 'zeropp {"backward":"split"}'])('%s', async (schedule) => {
    const states = ['"none"', '"attention"', '"full"', '[0,"head"]'].map(async (recompute) => {
      const compiled = compilePlan(
        planOf({
          schedule,
          actors: 2,
          replicas: 'first two',
          microbatches: 4,
          model: 'gpt',
          recompute,
          zero: '0',
        }),
      )
      const program = programOf(compiled)
      const phases = new Set(program.roles.flatMap(({ actions }) => actions.map(({ phase }) => phase)))
      const records = await runOn('emulator', compiled, randomBatches(compiled, steps), program)
      return { again: phases.has('R'), digests: digests(records.at(-1)!.state) }
    })
    const [none, ...others] = await Promise.all(states)
    expect(none!.again).toBe(false)
    for (const { again, digests } of others) {
      expect(again).toBe(true)
      expect(digests).toEqual(none!.digests)
    }
  })
})

describe('on threads', () => {
  // Of one generator in three, or in full of each, the case with most actors and micro-batches.
  const size = ({ actors, microbatches }: ScheduledCase): number => actors * microbatches
  const names = [...scheduleGenerators.keys()].filter((_, index) => full || index % 3 === 2)
  const sample = names.map(
    (name) =>
      cases.filter(({ schedule }) => split(schedule).name === name).toSorted((a, b) => size(b) - size(a))[0]!,
  )
  test.each(sample.map((one) => [nameOf(one), one] as const))('%s', (_, one) => expectEqual('local', one))
})
