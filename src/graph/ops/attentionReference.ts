import type { OpRule } from '../rule.ts'
import type { TensorData } from '../tensor.ts'
import type { Tensor } from '../types.ts'
import { expanded, zeros } from './elements.ts'
import { maskedScore } from './generators.ts'

/** Which keys each query of each batch sees: 1 or 0 for [...batch, queries, keys]. */
function visibility(
  visible: Tensor | undefined,
  causal: boolean,
  shape: readonly number[],
): (row: number, key: number) => boolean {
  const [queries, keys] = shape.slice(-2) as [number, number]
  if (visible !== undefined) {
    const seen: TensorData = expanded(visible, shape)
    return (row, key) => seen[row * keys + key] !== 0
  }
  return (row, key) => !causal || key <= (row % queries) + keys - queries
}

/** Row by row; the scores of keys that are not seen are not looked at. */
export const attentionReference: OpRule<'attention'>['reference'] = (
  [q, k, v, visible],
  { scale, causal },
  types,
) => {
  const [output, probabilities, logSumExp] = types.map(zeros) as [Tensor, Tensor, Tensor]
  const [heads, queries, width] = q!.type.shape.slice(-3) as [number, number, number]
  const [kvHeads, keys] = k!.type.shape.slice(-3) as [number, number]
  const valueWidth = v!.type.shape.at(-1)!
  const sees = visibility(visible, causal, [...q!.type.shape.slice(0, -3), queries, keys])
  for (let row = 0; row < logSumExp.data.length; row++) {
    const head = Math.floor(row / queries) % heads
    const sample = Math.floor(row / queries / heads)
    const firstKey = (sample * kvHeads + Math.floor(head / (heads / kvHeads))) * keys
    const seen: number[] = []
    for (let key = 0; key < keys; key++) if (sees(sample * queries + (row % queries), key)) seen.push(key)
    if (seen.length === 0) {
      logSumExp.data[row] = maskedScore
      continue
    }
    const weights = probabilities.data.subarray(row * keys, (row + 1) * keys)
    let largest = Number.NEGATIVE_INFINITY
    for (const key of seen) {
      let score = 0
      for (let at = 0; at < width; at++)
        score += q!.data[row * width + at]! * k!.data[(firstKey + key) * width + at]!
      weights[key] = score * scale
      largest = Math.max(largest, score * scale)
    }
    let sum = 0
    for (const key of seen) {
      weights[key] = Math.exp(weights[key]! - largest)
      sum += weights[key]!
    }
    for (const key of seen) {
      weights[key]! /= sum
      for (let at = 0; at < valueWidth; at++)
        output.data[row * valueWidth + at]! += weights[key]! * v!.data[(firstKey + key) * valueWidth + at]!
    }
    logSumExp.data[row] = largest + Math.log(sum)
  }
  return [output, probabilities, logSumExp]
}
