import { formatAction } from './actions.ts'
import type { ScheduleTiming } from './timing.ts'
import type { Action, Phase } from './types.ts'

export interface DrawOptions {
  /** Time that one column stands for; if not given, the longest that all times are whole multiples of. */
  readonly unit?: number
  /** Characters of a line at most; what comes later is cut off, marked `...`. Default 200. */
  readonly maximumWidth?: number
  /** Name of a row; `actor 0` and so on if not given. All as wide. */
  readonly rowName?: (actor: number) => string
  /** Colours the text of an action; it must keep its width on the screen. */
  readonly paint?: (phase: Phase, text: string) => string
}

/**
 * Actors x time as lines of text: a column is a unit of time, an action its label followed by dashes for as long as it
 * lasts, idle is blank. A column is as wide as the label of the shortest action needs. Labels carry the stage only
 * where an actor has several.
 */
export function drawTimeline(timing: ScheduleTiming, options: DrawOptions = {}): string[] {
  const paint = options.paint ?? ((_phase: Phase, text: string): string => text)
  const unit = options.unit ?? columnUnit(timing)
  const column = (time: number): number => Math.round(time / unit)
  const label = labelOf(timing)
  let width = 1
  for (const { actions, start, end } of timing.entries)
    for (const action of actions) {
      const columns = Math.max(1, Math.floor((column(end) - column(start)) / actions.length))
      if (end > start) width = Math.max(width, Math.ceil((label(action).length + 1) / columns))
    }
  const rowName = options.rowName ?? ((actor: number): string => `actor ${actor}`)
  const name = rowName(timing.actors - 1).length
  const room = Math.floor(((options.maximumWidth ?? 200) - name - 2) / width)
  const total = column(timing.makespan)
  const columns = Math.max(1, Math.min(total, room))
  const rows = Array.from({ length: timing.actors }, () => ({ at: 0, text: '' }))
  for (const entry of timing.entries) {
    const row = rows[entry.actor]!
    const start = column(entry.start) * width
    const end = Math.min(column(entry.end), columns) * width
    if (end <= start) continue
    row.text += ' '.repeat(start - row.at)
    // The two of a pair share its time: they are drawn one after the other.
    const each = Math.floor((end - start) / entry.actions.length)
    for (const [number, action] of entry.actions.entries()) {
      const length = number === entry.actions.length - 1 ? end - start - each * number : each
      row.text += `${paint(
        action.phase,
        label(action)
          .padEnd(length - 1, '-')
          .slice(0, length - 1),
      )} `
    }
    row.at = end
  }
  return [
    `${'time'.padEnd(name)}  ${drawScale(columns, width, unit)}`.trimEnd(),
    ...rows.map((row, actor) => {
      const cut = total > columns ? `${' '.repeat(columns * width - row.at)}...` : ''
      return `${rowName(actor).padEnd(name)}  ${row.text}${cut}`.trimEnd()
    }),
  ]
}

/** The time at a column every eight characters or so; further apart where times are longer than that. */
function drawScale(columns: number, width: number, unit: number): string {
  let longest = 7
  for (let column = 0; column < columns; column++)
    longest = Math.max(longest, formatTime(column * unit).length)
  const every = Math.ceil((longest + 1) / width)
  let scale = ''
  for (let column = 0; column < columns; column += every)
    scale += formatTime(column * unit).padEnd(width * every)
  return scale
}

/** The longest time that divides every start and end (to rounding); a 120th of the whole if there is none near. */
function columnUnit(timing: ScheduleTiming): number {
  const tolerance = timing.makespan * 1e-6
  let unit = 0
  for (const { start, end } of timing.entries)
    for (let value of [start, end]) {
      while (value > tolerance) {
        const rest = unit > tolerance ? value % unit : 0
        if (unit <= tolerance) {
          unit = value
          break
        }
        if (rest <= tolerance || unit - rest <= tolerance) break
        value = unit
        unit = rest
      }
    }
  const finest = timing.makespan / 1000
  return unit > finest ? unit : Math.max(timing.makespan / 120, Number.MIN_VALUE)
}

function labelOf(timing: ScheduleTiming): (action: Action) => string {
  const stageOfActor = new Map<number, number>()
  let several = false
  for (const { actor, actions } of timing.entries)
    for (const { stage } of actions) {
      several ||= (stageOfActor.get(actor) ?? stage) !== stage
      stageOfActor.set(actor, stage)
    }
  return (action) => (several ? formatAction(action) : formatAction(action).replace(/^\d+/, ''))
}

function formatTime(time: number): string {
  return String(Number(time.toPrecision(4)))
}
