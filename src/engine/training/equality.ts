import type { Batch } from '../../data/index.ts'
import type { LearningRateSpec, Optimizer } from '../../optimizers/index.ts'
import type { Engine, StateTensors } from '../types.ts'
import { compareScalars, compareTensors, type TensorDifference } from './compare.ts'
import { stepInput } from './step.ts'

/** The worst of one kind of values over all steps. */
export interface KindDifference {
  readonly kind: 'loss' | 'gradient' | 'parameter' | 'optimizer state'
  /** Values of this kind compared in each step. */
  readonly count: number
  readonly step: number
  readonly worst: TensorDifference
  readonly equal: boolean
}

export interface EqualityOptions {
  /** Program of the plan, with port `gradients`. */
  readonly actual: Engine
  /** Program of the serial plan, with port `gradients`. */
  readonly expected: Engine
  readonly state: StateTensors
  readonly optimizer: Optimizer
  readonly learningRate: LearningRateSpec
  readonly batches: readonly Batch[]
  readonly tolerance: number
  readonly onStep?: (step: number) => void
}

/**
 * Runs both engines over the same batches from the same state, and compares loss, every reduced gradient, every updated
 * parameter and every optimizer state by name, after every step.
 */
export async function checkEquality(options: EqualityOptions): Promise<KindDifference[]> {
  const { actual, expected, optimizer, tolerance } = options
  const parameters = new Set<string>()
  const worst = new Map<KindDifference['kind'], KindDifference>()
  const note = (
    kind: KindDifference['kind'],
    step: number,
    differences: readonly TensorDifference[],
  ): void => {
    const first = differences[0]
    if (first === undefined) return
    const known = worst.get(kind)
    if (known !== undefined && known.worst.error >= first.error) return
    worst.set(kind, { kind, count: differences.length, step, worst: first, equal: first.error <= tolerance })
  }
  await Promise.all([actual.writeState(options.state), expected.writeState(options.state)])
  for (const [step, batch] of options.batches.entries()) {
    options.onStep?.(step)
    const input = stepInput(step, batch, optimizer, options.learningRate)
    // One after the other: two runs at once would share cores and memory for nothing.
    const a = await actual.step(input)
    const b = await expected.step(input)
    const [lossA, lossB] = [a.scalars['loss']!, b.scalars['loss']!]
    note('loss', step, [
      { name: 'loss', error: compareScalars(lossA, lossB), index: [], actual: lossA, expected: lossB },
    ])
    const gradients = b.tensors['gradients']!
    for (const name of gradients.keys()) parameters.add(name)
    note('gradient', step, compareTensors(a.tensors['gradients']!, gradients))
    const [stateA, stateB] = [await actual.readState(), await expected.readState()]
    note('parameter', step, compareTensors(pick(stateA, true), pick(stateB, true)))
    note('optimizer state', step, compareTensors(pick(stateA, false), pick(stateB, false)))
  }
  return [...worst.values()]

  function pick(state: StateTensors, isParameter: boolean): StateTensors {
    return new Map([...state].filter(([name]) => parameters.has(name) === isParameter))
  }
}
