import type { Dataset } from '../../data/index.ts'
import type { LearningRateSpec, Optimizer } from '../../optimizers/index.ts'
import { stateTensors } from '../state.ts'
import type { Engine, RankCounters, StateTensors, StepResult } from '../types.ts'
import { evaluationInput, stepInput } from './step.ts'

export interface StepEvent {
  /** Steps done, this one included. */
  readonly step: number
  readonly steps: number
  /** Mean loss of the step's targets, in nats. */
  readonly loss: number
  readonly gradientNorm: number | undefined
  readonly learningRate: number
  readonly tokens: number
  readonly seconds: number
  readonly validationLoss: number | undefined
  readonly ranks: readonly RankCounters[]
  readonly result: StepResult
}

export interface TrainOptions {
  readonly engine: Engine
  /** Forward-only engine for the validation loss, made when first needed. */
  readonly evaluator?: () => Promise<Engine>
  readonly dataset: Dataset
  readonly optimizer: Optimizer
  readonly learningRate: LearningRateSpec
  /** First step to run and the step to stop before, from 0. */
  readonly startStep: number
  readonly steps: number
  /** Validation loss after every so many steps, and after the last; 0: never. */
  readonly validateEvery?: number
  /** Most batches of a validation: the first of the held-out text, the same each time. Default 16. */
  readonly validationBatches?: number
  readonly onStep?: (event: StepEvent) => void | Promise<void>
  /** Told before each batch of a validation how many are done, and how many there are. */
  readonly onValidation?: (done: number, batches: number) => void
  /** Asked before each step and each batch of a validation, which it leaves out; true ends the run in good order. */
  readonly shouldStop?: () => boolean
}

/** Enough for a mean that can be compared from one validation to the next, at the price of a few steps. */
export const defaultValidationBatches = 16

/** Runs steps until the last or until asked to stop. Returns how many steps are done in all. */
export async function train(options: TrainOptions): Promise<number> {
  const { engine, dataset, optimizer, learningRate, startStep, steps } = options
  for (let step = startStep; step < steps; step++) {
    if (options.shouldStop?.() === true) return step
    const started = performance.now()
    const batch = dataset.batchAt(step)
    const input = stepInput(step, batch, optimizer, learningRate)
    const result = await engine.step(input)
    const seconds = (performance.now() - started) / 1000
    const every = options.validateEvery ?? 0
    const validates = every > 0 && ((step + 1) % every === 0 || step + 1 === steps)
    const validationLoss = validates ? await validate(await engine.readState(), options) : undefined
    await options.onStep?.({
      step: step + 1,
      steps,
      loss: result.scalars['loss']! / batch.targets,
      gradientNorm: result.scalars['gradientNorm'],
      learningRate: input.scalars['learningRate']!,
      tokens: batch.tokens.length,
      seconds,
      validationLoss,
      ranks: result.ranks,
      result,
    })
  }
  return steps
}

/** Mean loss over the validation samples, or undefined where there are none or the run is to end. */
async function validate(state: StateTensors, options: TrainOptions): Promise<number | undefined> {
  const { dataset } = options
  const count = Math.min(dataset.validationBatches, options.validationBatches ?? defaultValidationBatches)
  if (count === 0 || options.evaluator === undefined) return undefined
  const evaluator = await options.evaluator()
  // A forward has no use for optimizer states, and takes none.
  const names = stateTensors(evaluator.program)
  await evaluator.writeState(new Map([...state].filter(([name]) => names.has(name))))
  let loss = 0
  let targets = 0
  for (let index = 0; index < count; index++) {
    if (options.shouldStop?.() === true) return undefined
    options.onValidation?.(index, count)
    const batch = dataset.validationBatchAt(index)
    const result = await evaluator.step(evaluationInput(batch))
    loss += result.scalars['loss']!
    targets += batch.targets
  }
  return loss / targets
}
