import type { OpCost } from '../rule.ts'
import { byteSize, elementCount } from '../tensor.ts'
import type { TensorType } from '../types.ts'

/** Flops given, bytes of every operand and output once. */
export function costOf(flops: number, inputs: readonly TensorType[], outputs: readonly TensorType[]): OpCost {
  let bytes = 0
  for (const type of inputs) bytes += byteSize(type)
  for (const type of outputs) bytes += byteSize(type)
  return { flops, bytes }
}

/**
 * A number of operations for each element of the first output. Elementary functions count as one: on every device
 * such ops are bound by their bytes.
 */
export function perOutputElement(
  flops: number,
): (inputs: readonly TensorType[], outputs: readonly TensorType[]) => OpCost {
  return (inputs, outputs) => costOf(flops * elementCount(outputs[0]!.shape), inputs, outputs)
}

/** A number of operations for each element of the first operand. */
export function perInputElement(
  flops: number,
): (inputs: readonly TensorType[], outputs: readonly TensorType[]) => OpCost {
  return (inputs, outputs) => costOf(flops * elementCount(inputs[0]!.shape), inputs, outputs)
}
