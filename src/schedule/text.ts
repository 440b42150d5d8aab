import { didYouMean, MeshwrightError } from '../base/index.ts'
import { formatEntry, scheduleLimits } from './actions.ts'
import { type Line, LineReader } from './line-reader.ts'
import { phases } from './phases.ts'
import type { Action, Schedule, ScheduleEntry } from './types.ts'

/**
 * The text form, version 1. For every actor the list of what it does, in order:
 *
 * ```
 * schedule 1
 * stages 2 on 0,1
 * microbatches 2
 * actor 0: 0F0 0F1 0B0 0B1
 * actor 1: 1F0 1B0 (1F1;1B1)
 * ```
 *
 * `0F1` is stage, phase, micro-batch; `.k` after it a slice, `/u` a unit; `(a;b)` two that may interleave. `#` starts a
 * comment. `parseSchedule(printSchedule(s))` equals s.
 */
export function printSchedule(schedule: Schedule): string {
  const lines = [
    'schedule 1',
    `stages ${schedule.stages} on ${schedule.placement.join(',')}`,
    `microbatches ${schedule.microbatches}`,
    ...schedule.actors.map((entries, actor) => [`actor ${actor}:`, ...entries.map(formatEntry)].join(' ')),
  ]
  return `${lines.join('\n')}\n`
}

/**
 * Reads the text form. Whether the schedule makes sense is for `validateSchedule`; here every number is in the range
 * that the head declares.
 *
 * @throws MeshwrightError `SCHEDULE_TEXT` with line and column
 */
export function parseSchedule(text: string, options: { readonly file?: string } = {}): Schedule {
  const file = options.file
  if (text.length > scheduleLimits.characters)
    throw new MeshwrightError('SCHEDULE_TEXT', `a schedule of ${text.length} characters is too long`, {
      at: file === undefined ? {} : { file },
      hint: `at most ${scheduleLimits.characters} characters are read`,
    })
  const lines = new LineReader(text, file)

  const version = lines.next('schedule 1')
  version.keyword('schedule')
  const versionAt = version.column()
  const number = version.number('a version', Number.MAX_SAFE_INTEGER)
  if (number !== 1)
    version.fail(`schedule text version ${number} is not known`, 'this reads version 1', versionAt)
  version.end()

  const head = lines.next('stages 4 on 0,1,2,3')
  head.keyword('stages')
  const stages = head.positive('the number of stages', scheduleLimits.stages)
  head.keyword('on')
  const placement = [head.number('the actor of stage 0', scheduleLimits.actors - 1)]
  while (placement.length <= stages && head.accept(','))
    placement.push(head.number(`the actor of stage ${placement.length}`, scheduleLimits.actors - 1))
  if (placement.length !== stages)
    head.fail(
      `not one actor for each of ${stages} stages`,
      'after "on" comes the actor of each stage, in order',
    )
  head.end()

  const count = lines.next('microbatches 8')
  count.keyword('microbatches')
  const microbatches = count.positive('the number of micro-batches', scheduleLimits.microbatches)
  count.end()

  const actors: ScheduleEntry[][] = []
  let actions = 0
  for (let line = lines.maybe(); line !== undefined; line = lines.maybe()) {
    const at = line.keyword('actor')
    if (actors.length === scheduleLimits.actors)
      line.fail(`more than ${scheduleLimits.actors} actors`, undefined, at)
    const actor = line.number('an actor', scheduleLimits.actors - 1)
    if (actor !== actors.length)
      line.fail(
        `actor ${actor} where actor ${actors.length} is due`,
        'actors are listed in order, from 0',
        at,
      )
    line.expect(':')
    const entries: ScheduleEntry[] = []
    while (!line.atEnd()) {
      const entry = readEntry(line, stages, microbatches)
      actions += 'pair' in entry ? 2 : 1
      if (actions > scheduleLimits.actions) line.fail(`more than ${scheduleLimits.actions} actions`)
      entries.push(entry)
    }
    actors.push(entries)
  }
  const needed = Math.max(...placement) + 1
  if (actors.length < needed)
    lines.failAtEnd(
      `a list for actor ${actors.length} is missing`,
      `stages are placed on actors 0 to ${needed - 1}`,
    )
  return { stages, microbatches, placement, actors }
}

function readEntry(line: Line, stages: number, microbatches: number): ScheduleEntry {
  if (!line.accept('(')) return readAction(line, stages, microbatches)
  const first = readAction(line, stages, microbatches)
  line.expect(';')
  const second = readAction(line, stages, microbatches)
  line.expect(')')
  return { pair: [first, second] }
}

function readAction(line: Line, stages: number, microbatches: number): Action {
  const stage = line.number('a stage', stages - 1)
  const at = line.column()
  const phase = line.word()
  if (!phases.has(phase))
    line.fail(
      phase === '' ? 'a phase is missing' : `no phase "${phase}"`,
      didYouMean(phase, phases.keys()) ?? `phases are ${[...phases.keys()].join(', ')}`,
      at,
    )
  const microbatch = line.number('a micro-batch', microbatches - 1, true)
  const slice = line.accept('.', true) ? line.number('a slice', scheduleLimits.slices - 1, true) : undefined
  const unit = line.accept('/', true) ? line.number('a unit', microbatches - 1, true) : undefined
  return {
    phase,
    stage,
    microbatch,
    ...(slice === undefined ? {} : { slice }),
    ...(unit === undefined ? {} : { unit }),
  }
}
