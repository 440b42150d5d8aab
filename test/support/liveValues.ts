import { type Role, readInstructions, valueAccesses } from '../../src/program/index.ts'

/**
 * The most values of `buffers` that are live at once between two instructions or inside one: from the first access to
 * the instruction that frees them, by looking at every instruction for every value.
 */
export function mostLive(role: Role, buffers: ReadonlySet<number>): number {
  const instructions = readInstructions(role.code)
  const touched = instructions.map((instruction) => valueAccesses(instruction).map(({ value }) => value))
  const spans = role.values.flatMap(({ buffer }, value) => {
    if (!buffers.has(buffer)) return []
    const first = touched.findIndex((values) => values.includes(value))
    const freed = instructions.findIndex((one) => one.kind === 'free' && one.values.includes(value))
    return first < 0 ? [] : [{ first, last: freed < 0 ? instructions.length : freed }]
  })
  return Math.max(
    0,
    ...instructions.map((_, at) => spans.filter(({ first, last }) => first <= at && at < last).length),
  )
}
