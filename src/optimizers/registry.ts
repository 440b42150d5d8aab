import { didYouMean, MeshwrightError } from '../base/index.ts'
import { adamw } from './adamw.ts'
import { readSettings, type SettingInfo } from './settings.ts'
import { sgd } from './sgd.ts'
import type { Optimizer, OptimizerSettings } from './types.ts'

export interface OptimizerInfo {
  readonly name: string
  readonly summary: string
  readonly settings: readonly SettingInfo[]
  /** `settings` whole and checked. */
  readonly make: (settings: OptimizerSettings) => Optimizer
}

const fraction = { minimum: 0, below: 1 } as const

export const optimizers: readonly OptimizerInfo[] = [
  {
    name: 'adamw',
    summary: 'Adam with decoupled weight decay, as torch.optim.AdamW',
    // Defaults: those GPT-3 was trained with (Brown et al. 2020, appendix B).
    settings: [
      { name: 'beta1', summary: 'decay of the mean of gradients', default: 0.9, range: fraction },
      { name: 'beta2', summary: 'decay of the mean of their squares', default: 0.95, range: fraction },
      { name: 'epsilon', summary: 'added to the root of that mean', default: 1e-8, range: { above: 0 } },
      {
        name: 'weightDecay',
        summary: 'share of a weight taken off a step, times the learning rate; not of biases and norms',
        default: 0.1,
        range: { minimum: 0 },
      },
    ],
    make: (settings) =>
      adamw({
        beta1: settings['beta1'] as number,
        beta2: settings['beta2'] as number,
        epsilon: settings['epsilon'] as number,
        weightDecay: settings['weightDecay'] as number,
      }),
  },
  {
    name: 'sgd',
    summary: 'stochastic gradient descent, as torch.optim.SGD',
    settings: [
      { name: 'momentum', summary: 'decay of the sum of gradients', default: 0.9, range: fraction },
      { name: 'nesterov', summary: 'look ahead by one step of momentum', default: false },
      {
        name: 'weightDecay',
        summary: 'times the weight, added to the gradient; not of biases and norms',
        default: 0,
        range: { minimum: 0 },
      },
    ],
    make: (settings) =>
      sgd({
        momentum: settings['momentum'] as number,
        nesterov: settings['nesterov'] as boolean,
        weightDecay: settings['weightDecay'] as number,
      }),
  },
]

/**
 * The optimizer of that name, with defaults for the settings left out. Throws `OPTIMIZER_UNKNOWN`, and
 * `OPTIMIZER_SETTING` for a setting that is unknown or out of range.
 */
export function makeOptimizer(name: string, given: Readonly<Record<string, unknown>> = {}): Optimizer {
  const info = optimizers.find((candidate) => candidate.name === name)
  if (info === undefined) {
    const names = optimizers.map((candidate) => candidate.name)
    throw new MeshwrightError('OPTIMIZER_UNKNOWN', `there is no optimizer "${name}"`, {
      hint: didYouMean(name, names) ?? `there are ${names.join(', ')}`,
    })
  }
  const settings = readSettings('OPTIMIZER_SETTING', name, info.settings, given)
  if (settings['nesterov'] === true && settings['momentum'] === 0)
    throw new MeshwrightError('OPTIMIZER_SETTING', 'nesterov of sgd needs a momentum above 0', {
      at: { path: 'nesterov' },
      hint: 'give a momentum, or leave nesterov out',
    })
  return info.make(settings)
}
