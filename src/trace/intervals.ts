/** A half-open span of seconds. */
export interface Interval {
  readonly start: number
  readonly end: number
}

/** The union of intervals, as disjoint ones in order. */
export function union(intervals: readonly Interval[]): Interval[] {
  const sorted = intervals.filter(({ start, end }) => end > start).sort((a, b) => a.start - b.start)
  const merged: { start: number; end: number }[] = []
  for (const { start, end } of sorted) {
    const last = merged.at(-1)
    if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end)
    else merged.push({ start, end })
  }
  return merged
}

/** What is in `from` and not in `without`; both disjoint and in order. */
export function subtract(from: readonly Interval[], without: readonly Interval[]): Interval[] {
  const left: Interval[] = []
  let next = 0
  for (const { start, end } of from) {
    let at = start
    while (next < without.length && without[next]!.end <= at) next++
    for (let index = next; index < without.length && without[index]!.start < end; index++) {
      const hole = without[index]!
      if (hole.start > at) left.push({ start: at, end: hole.start })
      at = Math.max(at, hole.end)
    }
    if (at < end) left.push({ start: at, end })
  }
  return left
}

export function totalSeconds(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, { start, end }) => sum + end - start, 0)
}
