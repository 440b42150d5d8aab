import { entryActions } from '../actions.ts'
import { drawGrid } from '../grid.ts'
import type { Action, Schedule } from '../types.ts'
import type { ScheduleFinding } from '../validate.ts'
import { type CsvLetters, formatCsvEntry } from './letters.ts'

interface StageState {
  gathered: boolean
  /** Where it was gathered last. */
  since: number
  /** Weight gradients still to come. */
  open: number
  reduced: number | undefined
}

/**
 * UNSHARD, RESHARD and REDUCE_GRAD: parameters gathered at every use and let go in the end, where the schedule gathers
 * any at all; gradients reduced once, after the last of them (PyTorch 2.13 scales them there too, so that without it
 * they are wrong on a single replica as well).
 */
export function findStageActions(schedule: Schedule, letters: CsvLetters, limit: number): ScheduleFinding[] {
  const has = (phases: readonly string[]): boolean =>
    schedule.actors.some((entries) =>
      entries.some((entry) => !('pair' in entry) && phases.includes(entry.phase)),
    )
  const gathers = has(['UNSHARD', 'RESHARD'])
  const reduces = letters === 'current' || has(['REDUCE_GRAD'])
  const found: ScheduleFinding[] = []
  const add = (finding: () => ScheduleFinding): void => {
    if (found.length < limit) found.push(finding())
  }
  for (const actor of schedule.actors.keys()) checkActor(schedule, actor, { gathers, reduces }, add)
  return found
}

function checkActor(
  schedule: Schedule,
  actor: number,
  rules: { readonly gathers: boolean; readonly reduces: boolean },
  add: (finding: () => ScheduleFinding) => void,
): void {
  const states = new Map<number, StageState>()
  const stateOf = (stage: number): StageState => {
    let state = states.get(stage)
    if (state === undefined) {
      state = { gathered: false, since: 0, open: schedule.microbatches, reduced: undefined }
      states.set(stage, state)
    }
    return state
  }
  const finding = (
    code: ScheduleFinding['code'],
    action: Action,
    index: number,
    what: string,
    waitsFor?: Action,
  ): void =>
    add(() => ({
      code,
      message: `${formatCsvEntry(action)} at place ${index} of actor ${actor} ${what}`,
      action,
      actor,
      index,
      ...(waitsFor === undefined
        ? {}
        : {
            waitsFor,
            grid: drawGrid(schedule, [{ actor, index, action, waitsFor, place: undefined }], formatCsvEntry),
          }),
    }))
  const stageAction = (phase: string, stage: number): Action => ({ phase, stage, microbatch: 0 })
  for (const [index, entry] of schedule.actors[actor]!.entries())
    for (const action of entryActions(entry)) {
      const { phase, stage } = action
      const state = stateOf(stage)
      switch (phase) {
        case 'UNSHARD':
          if (state.gathered)
            finding(
              'SCHEDULE_DUPLICATE',
              action,
              index,
              `gathers what is gathered since place ${state.since}`,
            )
          state.gathered = true
          state.since = index
          break
        case 'RESHARD':
          if (!state.gathered) finding('SCHEDULE_EXTRA', action, index, 'lets go of what is not gathered')
          state.gathered = false
          break
        case 'REDUCE_GRAD':
          if (state.reduced !== undefined)
            finding('SCHEDULE_DUPLICATE', action, index, `is there before, at place ${state.reduced}`)
          else if (state.open > 0) {
            const next = lastGradient(schedule, actor, stage)
            finding('SCHEDULE_ORDER', action, index, `needs ${formatCsvEntry(next)}, which comes later`, next)
          }
          state.reduced ??= index
          break
        case 'F':
        case 'I':
        case 'B':
        case 'W':
          if (rules.gathers && !state.gathered) {
            const unshard = stageAction('UNSHARD', stage)
            finding('SCHEDULE_ORDER', action, index, `needs ${formatCsvEntry(unshard)} before it`, unshard)
            // One finding for each use without is enough.
            state.gathered = true
            state.since = index
          }
          if (phase === 'B' || phase === 'W') state.open--
          break
        default:
      }
    }
  const last = schedule.actors[actor]!.length - 1
  for (const [stage, state] of states) {
    const missing = (phase: string, why: string): void =>
      add(() => ({
        code: 'SCHEDULE_MISSING',
        message: `${formatCsvEntry(stageAction(phase, stage))} is missing from actor ${actor}: ${why}`,
        action: stageAction(phase, stage),
        actor,
      }))
    if (state.gathered && rules.gathers)
      missing('RESHARD', `gathered at place ${state.since}, held after place ${last}`)
    if (rules.reduces && state.reduced === undefined)
      missing('REDUCE_GRAD', "PyTorch's runtime adds and scales gradients only there")
  }
}

function lastGradient(schedule: Schedule, actor: number, stage: number): Action {
  return schedule.actors[actor]!.flatMap(entryActions).findLast(
    (action) => action.stage === stage && (action.phase === 'B' || action.phase === 'W'),
  )!
}
