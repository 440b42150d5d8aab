import { internalError, MeshwrightError } from '../base/index.ts'
import {
  entryActions,
  formatAction,
  parseSchedule,
  placeStages,
  readCosts,
  type Schedule,
  scheduleChain,
  validateSchedule,
} from '../schedule/index.ts'
import type { Report } from './resolve.ts'
import { rememberSource, sourceOf } from './source.ts'
import type { PlanDocument } from './types.ts'

/**
 * Actor of each stage, as the plan's schedule places them; undefined, and reported, where there is no such schedule.
 * Every actor has a stage.
 */
export function resolvePlacement(plan: PlanDocument, report: Report): readonly number[] | undefined {
  const { pipeline } = plan.mesh
  const chosen = plan.schedule
  if ('name' in chosen) return attempt(report, () => placeStages(chosen.name, pipeline, chosen.parameters))
  if ('file' in chosen)
    return report(
      'PLAN_SCHEDULE',
      ['schedule', 'file'],
      `the schedule file ${chosen.file} was not read`,
      'give the schedule as text',
    )
  const path = ['schedule', 'text']
  const { placement, actors } = parseSchedule(chosen.text)
  if (actors.length !== pipeline)
    return report(
      'PLAN_SCHEDULE',
      path,
      `the schedule has ${actors.length} actors, but mesh.pipeline is ${pipeline}`,
      `set mesh.pipeline to ${actors.length}, or write the schedule for ${pipeline}`,
    )
  const idle = actors.findIndex((_, actor) => !placement.includes(actor))
  if (idle >= 0)
    return report(
      'PLAN_SCHEDULE',
      path,
      `the schedule places no stage on actor ${idle}`,
      'give every actor a stage, or leave the actor out',
    )
  return placement
}

/** Generated or read, then checked. */
export function resolveSchedule(plan: PlanDocument, report: Report): Schedule | undefined {
  const { pipeline } = plan.mesh
  const { microbatches } = plan.batch
  const chosen = plan.schedule
  if ('file' in chosen) return undefined
  if ('name' in chosen)
    return attempt(report, () => {
      const { name, parameters } = chosen
      const stages = placeStages(name, pipeline, parameters).length
      const costs = chosen.costs === null ? undefined : readCosts(chosen.costs, stages)
      const made = scheduleChain(name, { actors: pipeline, microbatches }, parameters, costs)
      const [finding] = validateSchedule(made, { limit: 1 })
      if (finding !== undefined) throw internalError(`schedule ${name}: ${finding.message}`)
      return made
    })
  const path = ['schedule', 'text']
  const schedule = parseSchedule(chosen.text)
  if (schedule.microbatches !== microbatches)
    return report(
      'PLAN_SCHEDULE',
      path,
      `the schedule has ${schedule.microbatches} micro-batches, but batch.microbatches is ${microbatches}`,
      `set batch.microbatches to ${schedule.microbatches}, or write the schedule for ${microbatches}`,
    )
  const part = schedule.actors
    .flat()
    .flatMap(entryActions)
    .find(({ slice }) => slice !== undefined)
  if (part !== undefined)
    return report(
      'PLAN_SCHEDULE',
      path,
      `${formatAction(part)} names a slice, which a plan cannot run yet`,
      'write one action for each stage and micro-batch, as 0F1',
    )
  const findings = validateSchedule(schedule, { limit: 10 })
  for (const finding of findings)
    report('PLAN_SCHEDULE', path, [finding.message, ...(finding.grid ?? [])].join('\n'), finding.hint)
  return findings.length === 0 ? schedule : undefined
}

/** Reports what the schedule room refuses. */
function attempt<T>(report: Report, make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    const path = error.code === 'SCHEDULE_COSTS' ? ['schedule', 'costs'] : ['schedule']
    return report('PLAN_SCHEDULE', path, error.message, error.hint)
  }
}

/** The plan with the text of its schedule in place of whatever stood there. What is wrong with it is found on resolving. */
export function withScheduleText(plan: PlanDocument, text: string): PlanDocument {
  const changed: PlanDocument = { ...plan, schedule: { text } }
  rememberSource(changed, sourceOf(plan))
  return changed
}
