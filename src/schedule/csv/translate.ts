import { entryActions, formatAction } from '../actions.ts'
import type { Action, Schedule, ScheduleEntry } from '../types.ts'
import { type CellPlace, type CellReader, findPlace } from './cells.ts'
import type { CsvLetters } from './letters.ts'

const bits: Readonly<Record<string, number>> = { B: 1, BW: 2, I: 4, W: 8 }

/**
 * Which letters a file is in, and the schedule in today's. `I` is in today's files only, `BW` in those of 2024 only; a
 * file with neither is of 2024 if it has W, since there B stands where today's I is. Within a micro-batch of a stage
 * the letters must agree.
 */
export function translateLetters(
  schedule: Schedule,
  text: string,
  reader: CellReader,
): { readonly letters: CsvLetters; readonly schedule: Schedule } {
  const done = lettersByCell(schedule)
  let all = 0
  for (const bit of done.values()) all |= bit
  const has = (letter: string): boolean => (all & bits[letter]!) !== 0
  const first = (test: (action: Action) => boolean): Found => findFirst(schedule, text, test)
  const of = (letter: string) => (action: Action) => action.phase === letter
  const key = ({ stage, microbatch }: Action): number => stage * schedule.microbatches + microbatch
  const cell = (action: Action): number => done.get(key(action)) ?? 0
  const mixture = (one: Found, why: string, other: Found, otherWhy: string): never =>
    reader.fail(
      one.place,
      `two meanings of the letters in one file: ${one.name} (${shown(one)}) ${why}, ${other.name} (${shown(other)}) ${otherWhy}`,
      "today F, I, W and B; in 2024 F, B, W and BW: I is 2024's B, and B is 2024's BW",
    )

  if (has('BW') && has('I'))
    mixture(first(of('BW')), 'is in the letters of 2024', first(of('I')), "in today's")
  const isSplit = (action: Action): boolean => action.phase === 'B' && (cell(action) & bits['W']!) !== 0
  const isWhole = (action: Action): boolean => action.phase === 'B' && (cell(action) & bits['W']!) === 0
  const letters = has('BW') || (has('W') && has('B') && !has('I')) ? '2024' : 'current'
  if (letters === 'current') {
    // W beside B where other micro-batches have I.
    const split = has('I') ? first((action) => isSplit(action) && (cell(action) & bits['I']!) === 0) : none
    if (split.name !== '')
      mixture(split, 'has a W of its own, as in 2024', first(of('I')), "is in today's letters")
    return { letters, schedule }
  }
  const whole = first(isWhole)
  if (whole.name !== '') {
    const proof = has('BW') ? first(of('BW')) : first(isSplit)
    if (proof.name !== '')
      mixture(
        whole,
        'has no W, as today',
        proof,
        has('BW') ? 'is in the letters of 2024' : 'has a W, as in 2024',
      )
    // Every W belongs to a micro-batch without B: an incomplete file, which is not for the letters to say.
    return { letters: 'current', schedule }
  }
  const today: Readonly<Record<string, string>> = { B: 'I', BW: 'B' }
  const translate = (action: Action): Action => ({ ...action, phase: today[action.phase] ?? action.phase })
  const translateEntry = (entry: ScheduleEntry): ScheduleEntry =>
    'pair' in entry ? { pair: [translate(entry.pair[0]), translate(entry.pair[1])] } : translate(entry)
  return {
    letters,
    schedule: { ...schedule, actors: schedule.actors.map((entries) => entries.map(translateEntry)) },
  }
}

function lettersByCell(schedule: Schedule): Map<number, number> {
  const done = new Map<number, number>()
  for (const entries of schedule.actors)
    for (const entry of entries)
      for (const { phase, stage, microbatch } of entryActions(entry)) {
        const bit = bits[phase]
        if (bit === undefined) continue
        const key = stage * schedule.microbatches + microbatch
        done.set(key, (done.get(key) ?? 0) | bit)
      }
  return done
}

interface Found {
  /** '' where there is none. */
  readonly name: string
  readonly place: CellPlace
}

const none: Found = { name: '', place: { line: 1, column: 1 } }

function findFirst(schedule: Schedule, text: string, test: (action: Action) => boolean): Found {
  for (const [row, entries] of schedule.actors.entries())
    for (const [index, entry] of entries.entries())
      for (const action of entryActions(entry))
        if (test(action)) return { name: formatAction(action), place: findPlace(text, row, index) }
  return none
}

function shown({ place }: Found): string {
  return `line ${place.line}, column ${place.column}`
}
