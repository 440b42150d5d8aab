/** small plans that go through every motion of training, and what runs them beside serial training. */
import { type Compiled, compile, learningRateOf } from '../../src/cli/prepare.ts'
import { type Batch, createDataset } from '../../src/data/index.ts'
import {
  createEmulator,
  createLocalEngine,
  type Engine,
  type LocalEngineOptions,
} from '../../src/engine/index.ts'
import { initialState } from '../../src/engine/training/initialState.ts'
import { stepInput } from '../../src/engine/training/step.ts'
import type { StateTensors, StepResult } from '../../src/engine/types.ts'
import { parsePlan } from '../../src/plan/index.ts'
import { type LowerOptions, lowerPlan, type Program, verifyProgram } from '../../src/program/index.ts'

export interface TrainingCase {
  readonly family: 'gpt' | 'llama' | 'moe'
  readonly tied: boolean
  readonly stages: number
  /** Replicas of the stages, taken again from the first where there are more stages. */
  readonly replicas: readonly number[]
  readonly microbatches: number
  readonly schedule: 'gpipe' | '1f1b a' | '1f1b b'
  /** One layer more than stages: cut by cost, or the first or the last stage has two. */
  readonly cut: 'by cost' | 'first' | 'last'
  readonly optimizer: 'adamw' | 'sgd'
}

const sequence = 8
const vocabulary = 32

const modelNames = {
  gpt: (layers: number, tied: boolean) =>
    `gpt:layers=${layers},hidden=16,heads=2,context=${sequence},vocab=${vocabulary},tied=${tied}`,
  llama: (layers: number, tied: boolean) =>
    `llama:layers=${layers},hidden=16,heads=4,kvHeads=2,mlp=24,context=${sequence},vocab=${vocabulary},tied=${tied}`,
  // Choices are dropped, and an auxiliary loss passes from stage to stage.
  moe: (layers: number, tied: boolean) =>
    `moe:layers=${layers},hidden=16,heads=4,kvHeads=2,mlp=12,context=${sequence},vocab=${vocabulary},tied=${tied},experts=4,topk=2,capacityFactor=1,balanceWeight=0.05`,
}

export function nameOf(one: TrainingCase): string {
  const { family, tied, stages, replicas, microbatches, schedule, cut, optimizer } = one
  return `${family}${tied ? '' : ' untied'}, ${stages} stages of ${replicas.join(':')}, ${microbatches} micro-batches, ${schedule}, cut ${cut}, ${optimizer}`
}

/** The plan as a document, before it meets its model. */
export function planOf(one: TrainingCase): Record<string, unknown> {
  const { family, tied, stages, microbatches } = one
  const data = Array.from({ length: stages }, (_, stage) => one.replicas[stage % one.replicas.length]!)
  const layers = Array.from({ length: stages }, (_, stage) =>
    stage === (one.cut === 'first' ? 0 : stages - 1) ? 2 : 1,
  )
  const [name, warmup] = one.schedule.split(' ')
  return {
    meshwright: 1,
    model: modelNames[family](stages + 1, tied),
    mesh: { pipeline: stages, data },
    stages: one.cut === 'by cost' ? null : layers,
    schedule: { name, ...(warmup === undefined ? {} : { warmup }) },
    batch: { samples: microbatches * data.reduce(leastCommonMultiple), microbatches },
    dtype: 'f64',
    optimizer: { name: one.optimizer, weightDecay: 0.1 },
    learningRate: { kind: 'cosine', peak: 0.01, warmupSteps: 2, totalSteps: 4 },
    // Far below the norm of a new model's gradients.
    clip: 0.25,
    reduction: { bucketBytes: 4096 },
  }
}

function leastCommonMultiple(a: number, b: number): number {
  let multiple = a
  while (multiple % b !== 0) multiple += a
  return multiple
}

export function compilePlan(document: Record<string, unknown>): Compiled {
  return compile({
    document: parsePlan(JSON.stringify(document)),
    directory: process.cwd(),
    source: 'a test',
  })
}

/** The program of a plan, which must verify. */
export function programOf({ plan, model }: Compiled, options: LowerOptions = { gradients: true }): Program {
  const program = lowerPlan(plan, model, options)
  const { findings } = verifyProgram(program)
  if (findings.length > 0) throw new Error(findings.map(({ message }) => message).join('\n'))
  return program
}

/**
 * Batches of random tokens. About a fifth of the labels is not counted, so that micro-batches have unequal shares of
 * the loss, and a mean of means shows.
 */
export function randomBatches(
  { plan, model }: Pick<Compiled, 'plan' | 'model'>,
  count: number,
  seed: number = 1,
): Batch[] {
  const random = lehmer(seed)
  const tokens = Int32Array.from({ length: (count + 1) * plan.samples * plan.sequence + 1 }, () =>
    Math.floor(random() * model.vocabulary),
  )
  const text = { source: 'random', bytes: tokens.length, tokens, vocabularySize: 32, tokenizer: 'none' }
  const dataset = createDataset(text, { sequence: plan.sequence, batch: plan.samples, seed })
  return Array.from({ length: count }, (_, step) => {
    const { tokens, labels } = dataset.batchAt(step)
    // The last labels always count, or a batch could be without any.
    for (let index = 0; index < labels.length - 1; index++) if (random() < 0.2) labels[index] = -1
    return { tokens, labels, targets: labels.filter((label) => label >= 0).length }
  })
}

/** The minimal standard generator of Park and Miller, as numbers in (0, 1). */
function lehmer(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

export interface StepRecord {
  readonly result: StepResult
  readonly state: StateTensors
}

export function stateOf({ model, optimizer, plan }: Compiled, seed: number = 3): StateTensors {
  return initialState({ model, optimizer, dtype: plan.dtype, seed })
}

/** Runs all batches from the plan's initial state; results and the state after every step. */
export async function runSteps(
  compiled: Compiled,
  engine: Engine,
  batches: readonly Batch[],
): Promise<StepRecord[]> {
  const learningRate = learningRateOf(compiled.document, batches.length)
  await engine.writeState(stateOf(compiled))
  const records: StepRecord[] = []
  for (const [step, batch] of batches.entries()) {
    const result = await engine.step(stepInput(step, batch, compiled.optimizer, learningRate))
    records.push({ result, state: await engine.readState() })
  }
  return records
}

/** Runs all batches on an engine of its own. */
export async function runOn(
  kind: 'local' | 'emulator',
  compiled: Compiled,
  batches: readonly Batch[],
  program: Program = programOf(compiled),
  options: LocalEngineOptions = {},
): Promise<StepRecord[]> {
  const engine = kind === 'local' ? await createLocalEngine(program, options) : createEmulator(program)
  try {
    return await runSteps(compiled, engine, batches)
  } finally {
    await engine.stop()
  }
}
