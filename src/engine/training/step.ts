import type { Batch } from '../../data/index.ts'
import { type LearningRateSpec, learningRateAt, type Optimizer } from '../../optimizers/index.ts'
import type { StepInput } from '../types.ts'

/**
 * What a program is given for step `step` (from 0). The loss is summed over the batch; 1 / targets seeds the backward,
 * so that a mean of means never comes up.
 */
export function stepInput(
  step: number,
  batch: Batch,
  optimizer: Optimizer,
  learningRate: LearningRateSpec,
): StepInput {
  return {
    tensors: { tokens: batch.tokens, labels: batch.labels },
    scalars: {
      lossScale: 1 / batch.targets,
      learningRate: learningRateAt(step + 1, learningRate),
      // Where the plan clips, the program makes its own.
      clipFactor: 1,
      ...optimizer.optimizerScalars(step + 1),
    },
  }
}

/** Inputs of a forward-only program. */
export function evaluationInput(batch: Batch): StepInput {
  return { tensors: { tokens: batch.tokens, labels: batch.labels }, scalars: {} }
}
