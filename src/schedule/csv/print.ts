import { MeshwrightError } from '../../base/index.ts'
import { entryActions, formatAction, formatEntry } from '../actions.ts'
import type { Schedule, ScheduleEntry } from '../types.ts'
import { validateSchedule } from '../validate.ts'
import { inferCommunication } from './infer.ts'
import { computeLetters, computePart, formatCsvEntry, isCommunication } from './letters.ts'
import type { CsvDialect } from './parse.ts'

/**
 * Writes a valid schedule of a chain as PyTorch's schedule file. Dialect `compute` (PyTorch's `compute_only`) has no idle
 * cells; `communication` (`compute_comms`) has all communication that PyTorch's runtime needs, that of the schedule if it
 * has any, else inferred. Reading it gives the schedule back, but for `unit`, which the format does not have.
 *
 * @throws MeshwrightError `SCHEDULE_CSV` for what PyTorch's runtime cannot run
 */
export function printScheduleCsv(schedule: Schedule, options: { readonly dialect: CsvDialect }): string {
  const compute = computePart(schedule)
  checkForPyTorch(compute)
  const hasCommunication = schedule.actors.some((entries) => entries.some(isCommunication))
  const written =
    options.dialect === 'compute' ? compute : hasCommunication ? schedule : inferCommunication(schedule)
  return written.actors.map((entries) => `${entries.map(printCell).join(',')}\n`).join('')
}

function printCell(entry: ScheduleEntry): string {
  if ('pair' in entry)
    return `(${entry.pair.map((action) => formatCsvEntry(plain(action))).join(';')})OVERLAP_F_B`
  return formatCsvEntry(plain(entry))
}

function plain({
  phase,
  stage,
  microbatch,
}: {
  phase: string
  stage: number
  microbatch: number
}): ScheduleEntry {
  return { phase, stage, microbatch }
}

function checkForPyTorch(schedule: Schedule): void {
  const fail = (message: string, hint: string): never => {
    throw new MeshwrightError('SCHEDULE_CSV', message, { hint })
  }
  const finding = validateSchedule(schedule, { limit: 1 })[0]
  if (finding !== undefined)
    fail(`the schedule is not valid: ${finding.message}`, 'only a valid one is written')
  const last = schedule.stages - 1
  let forwards = 0
  for (const [actor, entries] of schedule.actors.entries()) {
    if (entries.length === 0)
      fail(`actor ${actor} has no action`, "each rank of PyTorch's pipeline has a stage")
    for (const entry of entries) {
      if ('pair' in entry && !(entry.pair[0].phase === 'F' && ['B', 'I'].includes(entry.pair[1].phase)))
        fail(
          `${formatEntry(entry)} is no forward with a backward`,
          'PyTorch overlaps only those, the forward first',
        )
      for (const action of entryActions(entry)) {
        if (!(computeLetters as readonly string[]).includes(action.phase))
          fail(`PyTorch has no action like ${formatAction(action)}`, `it has ${computeLetters.join(', ')}`)
        if (action.slice !== undefined)
          fail(`${formatAction(action)} is a slice of a micro-batch`, "PyTorch's format has no slices")
        if (action.phase === 'F' && action.stage === last && action.microbatch !== forwards++)
          fail(
            `${formatAction(action)} comes as forward ${forwards} of the last stage`,
            "PyTorch's runtime numbers losses in the order of forwards: do them in the order of micro-batches",
          )
      }
    }
  }
}
