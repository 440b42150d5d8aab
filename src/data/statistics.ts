import type { TokenArray } from './tokens/tokenizer.ts'

/**
 * Entropy in nats of the token frequencies: the mean loss of the best guess that looks at no context, which a model
 * must fall below to have learnt anything of order.
 *
 * @returns sum over tokens t of -p(t) ln p(t); 0 for an empty array
 */
export function unigramEntropy(tokens: TokenArray): number {
  let largest = -1
  for (const token of tokens) if (token > largest) largest = token
  const counts = new Float64Array(largest + 1)
  for (const token of tokens) counts[token]!++
  let entropy = 0
  for (const count of counts) {
    const probability = count / tokens.length
    if (count > 0) entropy -= probability * Math.log(probability)
  }
  return entropy
}
