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
  }
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
  const { lowFactor, highFactor, originalContext } = scaling
  if (!(lowFactor > 0 && highFactor > lowFactor && Number.isFinite(highFactor)))
    refuse(
      `the low and high factors of llama3 rope scaling are ${lowFactor} and ${highFactor}`,
      'the low factor is above 0, the high factor above the low one',
    )
  if (!Number.isInteger(originalContext) || originalContext < 1)
    refuse(
      `the original context of llama3 rope scaling is ${originalContext}`,
      'it is a whole number of tokens',
    )
}

/** `none`, `linear/4` or `llama3/8/1/4/8192` (factor, low factor, high factor, original context). */
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
  }
}

/** The reverse of `printRopeScaling`. Throws `MODEL_ROPE_SCALING`. */
export function parseRopeScaling(text: string): RopeScaling {
  const [kind, ...parts] = text.split('/')
  const numbers = parts.map((part) => (part.trim() === '' ? Number.NaN : Number(part)))
  const scaling = assemble(kind!, numbers)
  if (scaling === undefined || numbers.some(Number.isNaN))
    throw new MeshwrightError('MODEL_ROPE_SCALING', `the rope scaling is "${text}"`, {
      hint: 'it is none, linear/FACTOR or llama3/FACTOR/LOW/HIGH/ORIGINAL_CONTEXT, as in llama3/8/1/4/8192',
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
  return undefined
}
