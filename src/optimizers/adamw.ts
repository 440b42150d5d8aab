import { checkStep, startRegion } from './region.ts'
import type { Optimizer } from './types.ts'

export interface AdamwSettings {
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
}

/**
 * Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), rounded in the order of
 * `torch.optim.AdamW`: decay first, epsilon added to the corrected root. Of step t the graph reads
 * correction1 = 1 / (1 - beta1^t) and correction2 = 1 / sqrt(1 - beta2^t), the factor of the root of v.
 */
export function adamw(settings: AdamwSettings): Optimizer {
  const { beta1, beta2, epsilon, weightDecay } = settings
  return {
    name: 'adamw',
    settings: { ...settings },
    states: [
      { name: 'm', checkpointName: (parameter) => `adam.m.${parameter}` },
      { name: 'v', checkpointName: (parameter) => `adam.v.${parameter}` },
    ],
    scalars: ['learningRate', 'clipFactor', 'correction1', 'correction2'],
    build(options) {
      const { builder, w, g, learningRate, state, scalar, constant, op } = startRegion(options)
      const [mOld, vOld] = [state('m'), state('v')]
      const stepSize = op('mul', learningRate, scalar('correction1'))
      const correction2 = scalar('correction2')

      const m = op('add', mOld, op('mul', op('sub', g, mOld), constant(1 - beta1)))
      const squares = op('mul', op('mul', g, g), constant(1 - beta2))
      const v = op('add', op('mul', vOld, constant(beta2)), squares)
      const root = op('mul', builder.one('sqrt', [v], {}), correction2)
      const update = op('mul', op('div', m, op('add', root, constant(epsilon))), stepSize)
      let decayed = w
      if (options.decay && weightDecay !== 0)
        decayed = op('mul', w, op('sub', constant(1), op('mul', learningRate, constant(weightDecay))))

      builder.output('w', op('sub', decayed, update))
      builder.output('m', m)
      builder.output('v', v)
      return builder.build()
    },
    optimizerScalars(step) {
      checkStep(step)
      return { correction1: 1 / (1 - beta1 ** step), correction2: 1 / Math.sqrt(1 - beta2 ** step) }
    },
  }
}
