/** Of whole numbers from 0; with 0, the other one. */
export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}

export function leastCommonMultiple(a: number, b: number): number {
  return (a / greatestCommonDivisor(a, b)) * b
}

/** Of 1 … `largest`, the nearest below `value` and the nearest above it that work. */
export function nearestWorking(
  value: number,
  works: (candidate: number) => boolean,
  largest: number,
): number[] {
  const found: number[] = []
  for (let below = Math.min(value - 1, largest); below >= 1 && found.length === 0; below--)
    if (works(below)) found.push(below)
  for (let above = value + 1; above <= largest; above++)
    if (works(above)) {
      found.push(above)
      break
    }
  return found
}
