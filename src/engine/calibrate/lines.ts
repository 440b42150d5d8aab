import type { LineCost } from '../../simulate/index.ts'

/** What was measured for a payload, and how often programs have it. */
export interface Point {
  readonly bytes: number
  readonly seconds: number
  readonly weight: number
}

/**
 * The line of least squares, weighted, among those that are nowhere negative: what is counted is seconds, not shares of
 * them, so that the sum over a program is right.
 */
export function fitLine(points: readonly Point[]): LineCost {
  let [weight, bytes, seconds] = [0, 0, 0]
  for (const point of points) {
    weight += point.weight
    bytes += point.weight * point.bytes
    seconds += point.weight * point.seconds
  }
  if (weight === 0) return { seconds: 0, secondsPerByte: 0 }
  const [meanBytes, meanSeconds] = [bytes / weight, seconds / weight]
  let [square, product, ownSquare, ownProduct] = [0, 0, 0, 0]
  for (const point of points) {
    square += point.weight * (point.bytes - meanBytes) ** 2
    product += point.weight * (point.bytes - meanBytes) * (point.seconds - meanSeconds)
    ownSquare += point.weight * point.bytes ** 2
    ownProduct += point.weight * point.bytes * point.seconds
  }
  const slope = square > 0 ? product / square : 0
  if (slope <= 0) return { seconds: Math.max(0, meanSeconds), secondsPerByte: 0 }
  const start = meanSeconds - slope * meanBytes
  if (start >= 0) return { seconds: start, secondsPerByte: slope }
  return { seconds: 0, secondsPerByte: Math.max(0, ownProduct / ownSquare) }
}

/** At most `most` of the items, the first and the last among them, the others as evenly as can be. */
export function evenly<T>(items: readonly T[], most: number): T[] {
  if (items.length <= most) return [...items]
  if (most === 1) return items.slice(0, 1)
  return Array.from(
    { length: most },
    (_, index) => items[Math.round((index * (items.length - 1)) / (most - 1))]!,
  )
}
