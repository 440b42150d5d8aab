import { internalError } from '../../base/index.ts'
import type { HostTensor, StateTensors } from '../types.ts'

/** How far one tensor is from what it should be. */
export interface TensorDifference {
  readonly name: string
  /** `max|a - b| / max(max|b| of the tensor, rms over all tensors of its kind)`. */
  readonly error: number
  /** Where the largest difference is, and the two values there. */
  readonly index: readonly number[]
  readonly actual: number
  readonly expected: number
}

/**
 * The measure of equality, tensor by tensor: `max|a - b| <= tolerance * max(max|b| of the tensor, rms over all tensors
 * of its kind)`. The second term is there for tensors whose true value is zero (the gradient of GPT-2's key bias),
 * where any relative measure would compare noise. Worst first. Throws when names or shapes differ.
 */
export function compareTensors(actual: StateTensors, expected: StateTensors): TensorDifference[] {
  if (actual.size !== expected.size)
    throw internalError(`${actual.size} tensors against ${expected.size} to compare`)
  const scale = rootMeanSquare(expected)
  const differences: TensorDifference[] = []
  for (const [name, b] of expected) {
    const a = actual.get(name)
    if (a === undefined || a.data.length !== b.data.length)
      throw internalError(`tensor ${name} is missing or has another size`)
    differences.push(difference(name, a, b, scale))
  }
  return differences.sort((left, right) => right.error - left.error)
}

/** The same measure for a scalar. */
export function compareScalars(actual: number, expected: number): number {
  if (!Number.isFinite(actual) || !Number.isFinite(expected)) return Number.POSITIVE_INFINITY
  return expected === actual
    ? 0
    : Math.abs(actual - expected) / Math.max(Math.abs(expected), Number.MIN_VALUE)
}

function difference(name: string, a: HostTensor, b: HostTensor, scale: number): TensorDifference {
  let worst = 0
  let at = 0
  let largest = 0
  for (let index = 0; index < b.data.length; index++) {
    const delta = Math.abs(a.data[index]! - b.data[index]!)
    largest = Math.max(largest, Math.abs(b.data[index]!))
    // Not `delta > worst`: a NaN must be the worst of all.
    if (delta <= worst) continue
    worst = Number.isNaN(delta) ? Number.POSITIVE_INFINITY : delta
    at = index
  }
  const unit = Math.max(largest, scale)
  return {
    name,
    error: worst === 0 ? 0 : worst / unit,
    index: position(at, b.shape),
    actual: a.data[at] ?? 0,
    expected: b.data[at] ?? 0,
  }
}

function rootMeanSquare(tensors: StateTensors): number {
  let sum = 0
  let count = 0
  for (const { data } of tensors.values()) {
    for (let index = 0; index < data.length; index++) sum += data[index]! * data[index]!
    count += data.length
  }
  return count === 0 ? 0 : Math.sqrt(sum / count)
}

function position(flat: number, shape: readonly number[]): number[] {
  const index: number[] = []
  let rest = flat
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    index.unshift(rest % shape[dim]!)
    rest = Math.floor(rest / shape[dim]!)
  }
  return index
}
