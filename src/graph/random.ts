import { MeshwrightError } from '../base/index.ts'
import { hashText, philox, scramble, type Words } from './mixing.ts'
import { inverseNormal } from './normal.ts'

/**
 * Random numbers that are functions of (seed, name, global element index): the same bits for any plan, rank and
 * engine, and a shard equals the slice of the whole.
 */
export interface RandomStream {
  /** A whole number from 0 up to 2^53 - 1. */
  readonly seed: number
  /** What the numbers are for; another name gives unrelated numbers. */
  readonly name: string
}

type Key = readonly [number, number]

function seedKey(seed: number): Key {
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new MeshwrightError('GRAPH_SEED', `seed ${seed} is not a whole number from 0 up to 2^53 - 1`)
  return [seed >>> 0, Math.floor(seed / 4294967296)]
}

/** The middle of one of 2^52 equal cells of (0, 1): never 0 or 1, and exact in a double. */
function uniformOfWords(high: number, low: number): number {
  return (high * 1048576 + (low >>> 12) + 0.5) / 4503599627370496
}

/** Words of elements 2 * pair and 2 * pair + 1: one block of the generator serves two elements. */
function pairWords(key: Key, nameWords: Words, pair: number): Words {
  return philox([pair >>> 0, Math.floor(pair / 4294967296), nameWords[0], nameWords[1]], key)
}

/** Fills `out` with uniform numbers in (0, 1) of elements `start`, `start + 1`, … of the stream. */
export function fillUniform(
  out: Float64Array | Float32Array,
  options: RandomStream & { readonly start?: number },
): void {
  const key = seedKey(options.seed)
  const nameWords = hashText(options.name)
  const start = options.start ?? 0
  for (let position = 0; position < out.length; ) {
    const index = start + position
    const words = pairWords(key, nameWords, Math.floor(index / 2))
    if (index % 2 === 0) out[position++] = uniformOfWords(words[0], words[1])
    if (position < out.length) out[position++] = uniformOfWords(words[2], words[3])
  }
}

/**
 * Fills `out` with normal numbers of the given mean and standard deviation, of elements `start`, `start + 1`, … of
 * the stream. A Float32Array gets the doubles, rounded.
 */
export function fillNormal(
  out: Float64Array | Float32Array,
  options: RandomStream & { readonly std: number; readonly mean?: number; readonly start?: number },
): void {
  const { std, mean = 0 } = options
  // Uniforms must not pass through float32, where they could round to 0 or 1.
  const chunk = new Float64Array(Math.min(out.length, 4096))
  for (let done = 0; done < out.length; done += chunk.length) {
    const part = chunk.subarray(0, Math.min(chunk.length, out.length - done))
    fillUniform(part, { ...options, start: (options.start ?? 0) + done })
    for (let position = 0; position < part.length; position++)
      out[done + position] = mean + std * inverseNormal(part[position]!)
  }
}

/** Largest size of a permuted range: both halves of an index must fit a word. */
const largestRange = 2 ** 52

export interface PermutationOptions {
  readonly seed: number
  /** Each epoch has its own order. */
  readonly epoch: number
  /** Length of the permuted range 0 … size - 1. */
  readonly size: number
}

/**
 * A pseudo-random permutation of 0 … size - 1 as a function of an index, so that any part of an epoch's order is
 * known without building it: a balanced Feistel network over the next power of four, walked until it lands inside
 * the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
 */
export function permutation(options: PermutationOptions): (index: number) => number {
  const { seed, epoch, size } = options
  if (!Number.isSafeInteger(size) || size < 1 || size > largestRange)
    throw new MeshwrightError('GRAPH_PERMUTATION', `cannot permute a range of ${size} items`)
  const keys = roundKeys(seed, epoch)
  let halfBits = 1
  while ((1 << halfBits) * (1 << halfBits) < size) halfBits++
  const half = 1 << halfBits
  const once = (index: number): number => {
    let left = Math.floor(index / half)
    let right = index % half
    for (const key of keys) {
      // Upper bits of a product of well mixed words are the better ones.
      const mixed = scramble(Math.imul(right, 0x9e3779b1) ^ key) >>> (32 - halfBits)
      ;[left, right] = [right, (left ^ mixed) >>> 0]
    }
    return left * half + right
  }
  return (index) => {
    if (!Number.isSafeInteger(index) || index < 0 || index >= size)
      throw new MeshwrightError('GRAPH_PERMUTATION', `index ${index} is outside 0 … ${size - 1}`)
    let at = once(index)
    while (at >= size) at = once(at)
    return at
  }
}

/** Small ranges leave few bits a round, so they need many rounds to be even over all permutations. */
const rounds = 16

function roundKeys(seed: number, epoch: number): number[] {
  if (!Number.isInteger(epoch) || epoch < 0 || epoch > 0xffffffff)
    throw new MeshwrightError('GRAPH_PERMUTATION', `epoch ${epoch} is not a whole number below 2^32`)
  const key = seedKey(seed)
  const words = hashText('permutation')
  return Array.from({ length: rounds / 4 }, (_, block) =>
    philox([block, epoch, words[0], words[1]], key),
  ).flat()
}
