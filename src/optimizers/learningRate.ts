import { assertNever, didYouMean, internalError, MeshwrightError } from '../base/index.ts'
import { readSettings, type SettingInfo } from './settings.ts'

interface WarmUp {
  readonly peak: number
  /** Steps before the peak, on which the rate rises evenly. */
  readonly warmupSteps: number
}

interface Decay extends WarmUp {
  /** The step after the last: there the rate would reach its minimum, and stays. */
  readonly totalSteps: number
  /** The minimum, as a fraction of the peak. */
  readonly minimumFraction: number
}

export type LearningRateSpec =
  | ({ readonly kind: 'constant' } & WarmUp)
  | ({ readonly kind: 'linear' } & Decay)
  | ({ readonly kind: 'cosine' } & Decay)

export interface LearningRateInfo {
  readonly kind: LearningRateSpec['kind']
  readonly summary: string
  readonly settings: readonly SettingInfo[]
}

const warmUpSettings: readonly SettingInfo[] = [
  { name: 'peak', summary: 'the largest learning rate', range: { above: 0 } },
  {
    name: 'warmupSteps',
    summary: 'steps before the peak',
    default: 0,
    range: { minimum: 0, whole: true },
  },
]

const decaySettings: readonly SettingInfo[] = [
  ...warmUpSettings,
  { name: 'totalSteps', summary: 'steps of the whole training', range: { minimum: 1, whole: true } },
  {
    name: 'minimumFraction',
    summary: 'where the decay ends, as a fraction of the peak',
    default: 0.1,
    range: { minimum: 0, maximum: 1 },
  },
]

export const learningRates: readonly LearningRateInfo[] = [
  { kind: 'constant', summary: 'rises to the peak, then stays', settings: warmUpSettings },
  { kind: 'linear', summary: 'rises to the peak, then falls evenly', settings: decaySettings },
  { kind: 'cosine', summary: 'rises to the peak, then falls as half a cosine', settings: decaySettings },
]

/** A spec from its kind and settings. Throws `OPTIMIZER_LEARNING_RATE` saying what is unknown or out of range. */
export function makeLearningRate(kind: string, given: Readonly<Record<string, unknown>>): LearningRateSpec {
  const info = learningRates.find((candidate) => candidate.kind === kind)
  const code = 'OPTIMIZER_LEARNING_RATE'
  if (info === undefined) {
    const kinds = learningRates.map((candidate) => candidate.kind)
    throw new MeshwrightError(code, `there is no learning rate "${kind}"`, {
      hint: didYouMean(kind, kinds) ?? `there are ${kinds.join(', ')}`,
    })
  }
  const settings = readSettings(code, `the ${kind} learning rate`, info.settings, given)
  const peak = settings['peak'] as number
  const warmupSteps = settings['warmupSteps'] as number
  if (info.kind === 'constant') return { kind: info.kind, peak, warmupSteps }
  const totalSteps = settings['totalSteps'] as number
  if (warmupSteps >= totalSteps)
    throw new MeshwrightError(code, `${warmupSteps} warm-up steps of ${totalSteps} steps in all`, {
      at: { path: 'warmupSteps' },
      hint: `warmupSteps is at most ${totalSteps - 1}`,
    })
  return {
    kind: info.kind,
    peak,
    warmupSteps,
    totalSteps,
    minimumFraction: settings['minimumFraction'] as number,
  }
}

/**
 * The learning rate of update `step`, counted from 1. Of w warm-up steps, step s <= w has peak * s / (w + 1): the
 * first moves already, and step w + 1 is the first at the peak. From there the decay takes totalSteps - w steps.
 */
export function learningRateAt(step: number, spec: LearningRateSpec): number {
  if (!Number.isInteger(step) || step < 1)
    throw internalError(`learning rate of step ${step}: steps count from 1`)
  const { peak, warmupSteps } = spec
  if (step <= warmupSteps) return (peak * step) / (warmupSteps + 1)
  switch (spec.kind) {
    case 'constant':
      return peak
    case 'linear':
      return peak + (spec.minimumFraction * peak - peak) * progress(step, spec)
    case 'cosine': {
      const minimum = spec.minimumFraction * peak
      return minimum + ((peak - minimum) * (1 + Math.cos(Math.PI * progress(step, spec)))) / 2
    }
    default:
      return assertNever(spec)
  }
}

/** 0 at the peak, 1 from where the minimum is reached. */
function progress(step: number, { warmupSteps, totalSteps }: Decay): number {
  return Math.min(1, (step - 1 - warmupSteps) / (totalSteps - warmupSteps))
}
