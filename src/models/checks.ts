import { MeshwrightError } from '../base/index.ts'
import type { BuildOptions, Model, ParameterSpec } from './types.ts'

/** No dim of any model is larger. */
export const largestSize: number = 2 ** 31 - 1
/** Every layer is a piece of every graph, so their number is what a person pays for. */
export const mostLayers = 4096
/** A hundred times the largest model known. */
export const mostParameters = 1e14

/** Checks that each named size is a whole number from 1 to its limit. Throws `MODEL_SIZE`. */
export function checkSizes(sizes: Readonly<Record<string, number>>): void {
  for (const [name, size] of Object.entries(sizes)) {
    const limit = name === 'layers' ? mostLayers : largestSize
    if (!Number.isInteger(size) || size < 1 || size > limit)
      throw new MeshwrightError('MODEL_SIZE', `${name} is ${size}`, {
        hint: `${name} is a whole number from 1 to ${limit}`,
      })
  }
}

/** Checks that each named count is a whole number from 0. Throws `MODEL_SIZE`. */
export function checkCounts(counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts))
    if (!Number.isInteger(count) || count < 0 || count > largestSize)
      throw new MeshwrightError('MODEL_SIZE', `${name} is ${count}`, {
        hint: `${name} is a whole number from 0 to ${largestSize}`,
      })
}

const mayBeZero: ReadonlySet<string> = new Set([
  'initialStd',
  'capacityFactor',
  'balanceWeight',
  'zLossWeight',
])

/** Checks that each named number is finite and above zero, or zero where that means "without". Throws `MODEL_NUMBER`. */
export function checkNumbers(numbers: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(numbers)) {
    const zero = mayBeZero.has(name)
    if (!Number.isFinite(value) || value < 0 || (value === 0 && !zero))
      throw new MeshwrightError('MODEL_NUMBER', `${name} is ${value}`, {
        hint: `${name} is a finite number ${zero ? 'from 0' : 'above 0'}`,
      })
  }
}

/** Checks that `parts` divides `whole` and says which values near either would. Throws `code`. */
export function checkDivides(
  code: string,
  whole: { readonly name: string; readonly size: number },
  parts: { readonly name: string; readonly size: number },
): void {
  if (whole.size % parts.size === 0) return
  const below = Math.floor(whole.size / parts.size) * parts.size
  const wholes = [below, below + parts.size].filter((size) => size > 0 && size <= largestSize)
  const divisors = divisorsOf(whole.size)
  const near = [
    divisors.findLast((divisor) => divisor < parts.size),
    divisors.find((divisor) => divisor > parts.size),
  ].filter((divisor) => divisor !== undefined)
  throw new MeshwrightError(
    code,
    `${whole.name} ${whole.size} is not divisible by ${parts.name} ${parts.size}`,
    {
      hint: `${whole.name} ${wholes.join(' or ')} would work, or ${parts.name} ${near.join(' or ')}`,
    },
  )
}

/** Ascending. */
export function divisorsOf(size: number): number[] {
  const small: number[] = []
  const large: number[] = []
  for (let candidate = 1; candidate * candidate <= size; candidate++) {
    if (size % candidate !== 0) continue
    small.push(candidate)
    if (candidate * candidate !== size) large.unshift(size / candidate)
  }
  return [...small, ...large]
}

/** Elements of all parameters together, each once. */
export function countParameters(parameters: readonly ParameterSpec[]): number {
  return parameters.reduce((total, { shape }) => total + shape.reduce((count, size) => count * size, 1), 0)
}

/** Throws `MODEL_TOO_LARGE` where the parameters are more than any model's. */
export function checkParameterCount(parameters: readonly ParameterSpec[]): void {
  const count = countParameters(parameters)
  if (count > mostParameters)
    throw new MeshwrightError(
      'MODEL_TOO_LARGE',
      `the model would have ${count.toExponential(2)} parameters, more than ${mostParameters.toExponential(0)}`,
      { hint: 'one of layers, hidden, mlp, vocab or context is too large' },
    )
}

/** Throws `MODEL_SEQUENCE` or `MODEL_BATCH` where a micro-batch of that shape cannot be. */
export function checkMicrobatch(model: Pick<Model, 'name' | 'context'>, options: BuildOptions): void {
  const { batch, sequence } = options
  if (!Number.isInteger(batch) || batch < 1 || batch > largestSize)
    throw new MeshwrightError('MODEL_BATCH', `a micro-batch of ${batch} samples`, {
      hint: 'a micro-batch has at least one sample',
    })
  if (!Number.isInteger(sequence) || sequence < 1 || sequence > model.context)
    throw new MeshwrightError(
      'MODEL_SEQUENCE',
      `sequences of ${sequence} tokens do not fit ${model.name}, whose context is ${model.context}`,
      { hint: `use 1 to ${model.context} tokens, or a model with a longer context` },
    )
  if (batch * sequence > largestSize)
    throw new MeshwrightError(
      'MODEL_BATCH',
      `a micro-batch of ${batch} samples of ${sequence} tokens is too large`,
      { hint: `samples times tokens stay at or below ${largestSize}` },
    )
}
