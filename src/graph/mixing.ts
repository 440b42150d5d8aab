/**
 * Integer mixing that gives the same bits everywhere, a browser included: a 128-bit hash of text and a counter-based
 * generator of random words. Neither is meant to withstand an adversary.
 */

export type Words = readonly [number, number, number, number]

function rotateLeft(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}

/** Spreads every bit over the whole word (the finalizer of MurmurHash3). */
export function scramble(word: number): number {
  let mixed = word
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

const multipliers: Words = [0x239b961b, 0xab0e9789, 0x38b34ae5, 0xa1e38b93]
const blockRotations: Words = [15, 16, 17, 18]
const stateRotations: Words = [19, 17, 15, 13]
const stateAddends: Words = [0x561ccd1b, 0x0bcaa747, 0x96cd1c35, 0x32ac3b17]

const encoder = new TextEncoder()

/** MurmurHash3, its 128-bit form of 32-bit words (Appleby 2011), of the text's UTF-8 bytes. */
export function hashText(text: string, seed: number = 0): Words {
  const bytes = encoder.encode(text)
  const state = Int32Array.of(seed, seed, seed, seed)
  const whole = bytes.length - (bytes.length % 16)
  // The last, incomplete block is filled up with zeros and absorbed without stirring.
  for (let start = 0; start <= whole; start += 16) {
    for (let lane = 0; lane < 4; lane++) {
      const at = start + 4 * lane
      const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
      const spread = rotateLeft(Math.imul(word, multipliers[lane]!), blockRotations[lane]!)
      state[lane]! ^= Math.imul(spread, multipliers[(lane + 1) % 4]!)
      if (start === whole) continue
      const rotated = rotateLeft(state[lane]!, stateRotations[lane]!) + state[(lane + 1) % 4]!
      state[lane] = Math.imul(rotated, 5) + stateAddends[lane]!
    }
  }
  return crossed(crossed(state.map((word) => word ^ bytes.length)).map(scramble))
}

/** Lets every lane depend on all four. */
function crossed([a, b, c, d]: Iterable<number>): Words {
  const sum = (a! + b! + c! + d!) >>> 0
  return [sum, (b! + sum) >>> 0, (c! + sum) >>> 0, (d! + sum) >>> 0]
}

/** 32 hexadecimal digits. */
export function formatWords(words: Words): string {
  return words.map((word) => word.toString(16).padStart(8, '0')).join('')
}

/**
 * Four random words for a counter under a key: Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011).
 */
export function philox(counter: Words, key: readonly [number, number]): Words {
  let [c0, c1, c2, c3] = counter
  let [k0, k1] = key
  for (let round = 0; round < 10; round++) {
    const low0 = Math.imul(0xd2511f53, c0) >>> 0
    const low1 = Math.imul(0xcd9e8d57, c2) >>> 0
    const high0 = highProduct(0xd2511f53, c0, low0)
    const high1 = highProduct(0xcd9e8d57, c2, low1)
    c0 = (high1 ^ c1 ^ k0) >>> 0
    c2 = (high0 ^ c3 ^ k1) >>> 0
    c1 = low1
    c3 = low0
    k0 = (k0 + 0x9e3779b9) >>> 0
    k1 = (k1 + 0xbb67ae85) >>> 0
  }
  return [c0, c1, c2, c3]
}

/**
 * The upper word of a product of words, from its lower one. The double product is off by at most 2^10, so the
 * quotient is off by far less than a half.
 */
function highProduct(left: number, right: number, low: number): number {
  return Math.round((left * right - low) / 4294967296)
}
