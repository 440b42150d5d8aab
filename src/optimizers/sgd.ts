import type { ValueId } from '../graph/index.ts'
import { checkStep, startRegion } from './region.ts'
import type { Optimizer } from './types.ts'

export interface SgdSettings {
  readonly momentum: number
  readonly nesterov: boolean
  readonly weightDecay: number
}

/**
 * Stochastic gradient descent as `torch.optim.SGD` has it, dampening 0: weight decay is added to the gradient, the
 * momentum buffer is momentum * buffer + gradient. Without momentum there is no state.
 */
export function sgd(settings: SgdSettings): Optimizer {
  const { momentum, nesterov, weightDecay } = settings
  return {
    name: 'sgd',
    settings: { ...settings },
    states:
      momentum === 0
        ? []
        : [{ name: 'momentum', checkpointName: (parameter) => `sgd.momentum.${parameter}` }],
    scalars: ['learningRate', 'clipFactor'],
    build(options) {
      const { builder, w, g, learningRate, state, constant, op } = startRegion(options)
      const gradient =
        options.decay && weightDecay !== 0 ? op('add', g, op('mul', w, constant(weightDecay))) : g
      const step = (direction: ValueId): void =>
        builder.output('w', op('sub', w, op('mul', direction, learningRate)))
      if (momentum === 0) {
        step(gradient)
        return builder.build()
      }
      const factor = constant(momentum)
      const buffer = op('add', op('mul', state('momentum'), factor), gradient)
      step(nesterov ? op('add', gradient, op('mul', buffer, factor)) : buffer)
      builder.output('momentum', buffer)
      return builder.build()
    },
    optimizerScalars(step) {
      checkStep(step)
      return {}
    },
  }
}
