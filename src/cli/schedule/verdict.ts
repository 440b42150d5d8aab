import { MeshwrightError } from '../../base/index.ts'
import {
  type CsvDialect,
  type CsvLetters,
  computePart,
  entryActions,
  type Schedule,
  type ScheduleFinding,
  validateSchedule,
  verifyCommunication,
} from '../../schedule/index.ts'
import { stageCosts } from './costs.ts'
import { type ShapeFlags, shapeOf } from './flags.ts'
import { makeSchedule, readSubject, type Subject } from './subject.ts'

/** What a schedule of the user's own is, and all that is wrong with it. */
export interface Verdict {
  readonly source: string
  readonly form:
    | { readonly kind: 'text' }
    | { readonly kind: 'csv'; readonly dialect: CsvDialect; readonly letters: CsvLetters }
    | { readonly kind: 'generator' }
  /** What was looked at; with its communication, if the file says any. Undefined where a generator made none. */
  readonly schedule: Schedule | undefined
  /** Computations. */
  readonly actions: number
  /** Sends, receives, gathers and reductions that the file says. */
  readonly communications: number
  /** Whether every action is there once, where it belongs; null where there is no schedule. */
  readonly complete: boolean | null
  /** Whether it runs to its end; null where that cannot be asked. */
  readonly runs: boolean | null
  readonly findings: readonly Finding[]
}

/** `SCHEDULE_MODULE` where a module's own generator made something that is no valid schedule. */
export type Finding = Omit<ScheduleFinding, 'code'> & {
  readonly code: ScheduleFinding['code'] | 'SCHEDULE_MODULE'
}

/** Most findings of a schedule: what follows is seldom of another kind. */
export const findingLimit = 100

/** Findings that say that something is not there, or not once, or not where it belongs. */
const ofCompleteness: ReadonlySet<string> = new Set([
  'SCHEDULE_RANGE',
  'SCHEDULE_ACTOR',
  'SCHEDULE_MISSING',
  'SCHEDULE_DUPLICATE',
  'SCHEDULE_EXTRA',
])

/** @throws what reading it throws */
export async function verifySubject(
  file: string,
  flags: ShapeFlags,
  parameters: Readonly<Record<string, unknown>>,
): Promise<Verdict> {
  const subject = await readSubject(file)
  const form = formOf(subject)
  const made = makeOrFind(subject, flags, parameters)
  if ('finding' in made) {
    const finding = { code: 'SCHEDULE_MODULE', ...made.finding } as const
    return {
      source: subject.name,
      form,
      schedule: undefined,
      actions: 0,
      communications: 0,
      complete: null,
      runs: null,
      findings: [finding],
    }
  }
  const csv = subject.kind === 'full' && subject.source.kind === 'csv' ? subject.source.csv : undefined
  const schedule = csv?.communication ?? made.schedule
  const findings =
    csv?.communication === undefined
      ? validateSchedule(schedule, { limit: findingLimit })
      : verifyCommunication(schedule, { letters: csv.letters, limit: findingLimit })
  const actions = actionCount(computePart(schedule))
  const complete = !findings.some(({ code }) => ofCompleteness.has(code))
  const stuck = findings.some(({ code }) => !ofCompleteness.has(code))
  return {
    source: subject.name,
    form,
    schedule,
    actions,
    communications: actionCount(schedule) - actions,
    complete,
    runs: stuck ? false : complete ? true : null,
    findings,
  }
}

function formOf(subject: Subject): Verdict['form'] {
  if (subject.kind === 'generator') return { kind: 'generator' }
  const { source } = subject
  if (source.kind === 'text') return { kind: 'text' }
  return { kind: 'csv', dialect: source.csv.dialect, letters: source.csv.letters }
}

/** A generator that does not make what it should was read all the same. */
function makeOrFind(
  subject: Subject,
  flags: ShapeFlags,
  parameters: Readonly<Record<string, unknown>>,
): { readonly schedule: Schedule } | { readonly finding: { message: string; hint?: string } } {
  try {
    return makeSchedule(subject, shapeOf(flags), flags, parameters, stageCosts(undefined, undefined))
  } catch (error) {
    if (!(error instanceof MeshwrightError) || error.code !== 'SCHEDULE_MODULE') throw error
    const { message, hint } = error
    return { finding: { message, ...(hint === undefined ? {} : { hint }) } }
  }
}

function actionCount({ actors }: Schedule): number {
  return actors.reduce(
    (sum, entries) => sum + entries.reduce((count, entry) => count + entryActions(entry).length, 0),
    0,
  )
}
