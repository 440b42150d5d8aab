import { MeshwrightError } from '../base/index.ts'
import type { RopeScaling } from './types.ts'

/**
 * Angle per position of each pair of a head's elements: theta^(-2i / headDim), i < headDim / 2 (RoFormer, Su et al.
 * 2021, section 3.2.2), stretched by `scaling`.
 */
export function rotaryFrequencies(headDim: number, theta: number, scaling: RopeScaling): number[] {
  const plain = Array.from({ length: headDim / 2 }, (_, pair) => theta ** ((-2 * pair) / headDim))
  switch (scaling.kind) {
    case 'none':
      return plain
    case 'linear':
      return plain.map((frequency) => frequency / scaling.factor)
    case 'llama3':
      return plain.map((frequency) => {
        // How many turns the pair makes within the context trained first.
        const turns = (scaling.originalContext * frequency) / (2 * Math.PI)
        const ramp = (turns - scaling.lowFactor) / (scaling.highFactor - scaling.lowFactor)
        const kept = Math.min(1, Math.max(0, ramp))
        return kept * frequency + ((1 - kept) * frequency) / scaling.factor
      })
    case 'yarn': {
      const { low, high } = yarnRange(headDim, theta, scaling)
      return plain.map((frequency, pair) => {
        const stretched = Math.min(1, Math.max(0, (pair - low) / (high - low)))
        return (1 - stretched) * frequency + (stretched * frequency) / scaling.factor
      })
    }
  }
}

type Yarn = Extract<RopeScaling, { readonly kind: 'yarn' }>

/** Pairs up to `low` are kept, those from `high` on stretched in full. */
function yarnRange(headDim: number, theta: number, scaling: Yarn): { low: number; high: number } {
  /** The pair that makes so many turns within the context trained first, as a fraction. */
  const pairOf = (turns: number): number =>
    (headDim * Math.log(scaling.originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(theta))
  const low = Math.max(0, Math.floor(pairOf(scaling.betaFast)))
  const high = Math.min(headDim - 1, Math.ceil(pairOf(scaling.betaSlow)))
  return low === high ? { low, high: high + 0.001 } : { low, high }
}

/** Attention is sharper over a longer context, by this (YaRN, section 3.4, with DeepSeek's weight). */
function yarnScale(factor: number, weight: number): number {
  return factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1
}

/** What cos and sin are multiplied by. */
export function rotaryFactor(scaling: RopeScaling): number {
  if (scaling.kind !== 'yarn') return 1
  const { factor, mscale, mscaleAllDim } = scaling
  if (mscale === 0 || mscaleAllDim === 0) return yarnScale(factor, 1)
  return yarnScale(factor, mscale) / yarnScale(factor, mscaleAllDim)
}

/** What scores of latent attention, of which positions turn a part only, are multiplied by beside 1/√width. */
export function latentScoreFactor(scaling: RopeScaling): number {
  if (scaling.kind !== 'yarn' || scaling.mscaleAllDim === 0) return 1
  return yarnScale(scaling.factor, scaling.mscaleAllDim) ** 2
}

/** Throws `MODEL_ROPE_SCALING` where the numbers make no stretching. */
export function checkRopeScaling(scaling: RopeScaling): void {
  if (scaling.kind === 'none') return
  const refuse = (message: string, hint: string): never => {
    throw new MeshwrightError('MODEL_ROPE_SCALING', message, { hint })
  }
  if (!Number.isFinite(scaling.factor) || scaling.factor < 1)
    refuse(`the rope scaling factor is ${scaling.factor}`, 'the factor is a number of at least 1')
  if (scaling.kind === 'linear') return
  const { originalContext } = scaling
  if (!Number.isInteger(originalContext) || originalContext < 1)
    refuse(
      `the original context of ${scaling.kind} rope scaling is ${originalContext}`,
      'it is a whole number of tokens',
    )
  if (scaling.kind === 'yarn') {
    const { betaFast, betaSlow, mscale, mscaleAllDim } = scaling
    if (!(betaSlow > 0 && betaFast >= betaSlow && Number.isFinite(betaFast)))
      refuse(
        `the fast and slow beta of yarn rope scaling are ${betaFast} and ${betaSlow}`,
        'the slow one is above 0, the fast one at least as large',
      )
    if (![mscale, mscaleAllDim].every((weight) => Number.isFinite(weight) && weight >= 0))
      refuse(
        `mscale and mscaleAllDim of yarn rope scaling are ${mscale} and ${mscaleAllDim}`,
        'each is 0 or more',
      )
    return
  }
  const { lowFactor, highFactor } = scaling
  if (!(lowFactor > 0 && highFactor > lowFactor && Number.isFinite(highFactor)))
    refuse(
      `the low and high factors of llama3 rope scaling are ${lowFactor} and ${highFactor}`,
      'the low factor is above 0, the high factor above the low one',
    )
}

/**
 * `none`, `linear/4`, `llama3/8/1/4/8192` (factor, low factor, high factor, original context) or `yarn/40/4096/32/1/1/1`
 * (factor, original context, fast and slow beta, mscale, mscaleAllDim).
 */
export function printRopeScaling(scaling: RopeScaling): string {
  switch (scaling.kind) {
    case 'none':
      return 'none'
    case 'linear':
      return `linear/${scaling.factor}`
    case 'llama3': {
      const { factor, lowFactor, highFactor, originalContext } = scaling
      return `llama3/${factor}/${lowFactor}/${highFactor}/${originalContext}`
    }
    case 'yarn': {
      const { factor, originalContext, betaFast, betaSlow, mscale, mscaleAllDim } = scaling
      return `yarn/${factor}/${originalContext}/${betaFast}/${betaSlow}/${mscale}/${mscaleAllDim}`
    }
  }
}

/** The reverse of `printRopeScaling`. Throws `MODEL_ROPE_SCALING`. */
export function parseRopeScaling(text: string): RopeScaling {
  const [kind, ...parts] = text.split('/')
  const numbers = parts.map((part) => (part.trim() === '' ? Number.NaN : Number(part)))
  const scaling = assemble(kind!, numbers)
  if (scaling === undefined || numbers.some(Number.isNaN))
    throw new MeshwrightError('MODEL_ROPE_SCALING', `the rope scaling is "${text}"`, {
      hint:
        'it is none, linear/FACTOR, llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT, as in llama3/8/1/4/8192, or ' +
        'yarn/FACTOR/ORIGINAL_CONTEXT/BETA_FAST/BETA_SLOW/MSCALE/MSCALE_ALL_DIM, as in yarn/40/4096/32/1/1/1',
    })
  checkRopeScaling(scaling)
  return scaling
}

function assemble(kind: string, numbers: readonly number[]): RopeScaling | undefined {
  const [factor, lowFactor, highFactor, originalContext] = numbers
  if (kind === 'none' && numbers.length === 0) return { kind: 'none' }
  if (kind === 'linear' && numbers.length === 1) return { kind: 'linear', factor: factor! }
  if (kind === 'llama3' && numbers.length === 4)
    return {
      kind: 'llama3',
      factor: factor!,
      lowFactor: lowFactor!,
      highFactor: highFactor!,
      originalContext: originalContext!,
    }
  if (kind === 'yarn' && numbers.length === 6) {
    const [, context, betaFast, betaSlow, mscale, mscaleAllDim] = numbers as [
      number,
      number,
      number,
      number,
      number,
      number,
    ]
    return { kind, factor: factor!, originalContext: context, betaFast, betaSlow, mscale, mscaleAllDim }
  }
  return undefined
}
