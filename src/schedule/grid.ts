import { formatEntry } from './actions.ts'
import type { BlockedActor } from './progress.ts'
import type { Schedule, ScheduleEntry } from './types.ts'

/** Steps shown on either side of a marked place, and rows shown at most. */
const margin = 4
const maximumRows = 24
const maximumColumns = 24

/**
 * Actors x steps of a schedule around the places where actors are stuck, each marked `>2B0<`. What is done stands
 * before the mark, what is still to do after it; `...` where lists go on.
 */
export function drawGrid(
  schedule: Schedule,
  stuck: readonly BlockedActor[],
  format: (entry: ScheduleEntry) => string = formatEntry,
): string[] {
  const marked = new Map(stuck.map(({ actor, index }) => [actor, index]))
  const places = stuck.map(({ index }) => index)
  const from = Math.max(0, Math.min(...places) - margin)
  const longest = Math.max(...schedule.actors.map((entries) => entries.length))
  const to = Math.min(Math.max(...places) + margin + 1, from + maximumColumns, longest)
  const steps = Array.from({ length: to - from }, (_, offset) => from + offset)
  const rows = shownActors(schedule.actors.length, [...marked.keys()])
  const cells = rows.map((actor) =>
    steps.map((step) => {
      const entry = schedule.actors[actor]![step]
      if (entry === undefined) return ''
      return marked.get(actor) === step ? `>${format(entry)}<` : ` ${format(entry)} `
    }),
  )
  const width = Math.max(...cells.flat().map((cell) => cell.length), String(to).length + 2)
  const label = `actor ${Math.max(...rows)}`.length
  const before = from > 0 ? '... ' : ''
  const head = `${' '.repeat(label)}  ${' '.repeat(before.length)}${steps.map((step) => ` ${step} `.padEnd(width)).join('')}`
  const lines = rows.map((actor, row) => {
    const after = schedule.actors[actor]!.length > to ? ' ...' : ''
    return `${`actor ${actor}`.padEnd(label)}  ${before}${cells[row]!.map((cell) => cell.padEnd(width)).join('')}${after}`
  })
  return [head, ...lines].map((line) => line.trimEnd())
}

/** All actors, or as many as fit with the marked ones among them. */
function shownActors(count: number, marked: readonly number[]): number[] {
  const all = Array.from({ length: count }, (_, actor) => actor)
  if (count <= maximumRows) return all
  const near = (actor: number): number => Math.min(...marked.map((other) => Math.abs(other - actor)))
  return all
    .toSorted((a, b) => near(a) - near(b) || a - b)
    .slice(0, maximumRows)
    .sort((a, b) => a - b)
}
