import type { Action, Phase } from '../../schedule/index.ts'
import { type Finding, isOncePerStep, type VerifyContext } from './finding.ts'
import { findingAt } from './findingAt.ts'

/** More than are ever shown. */
const most = 1000

/**
 * Actions of a step that says itself which phases it goes through: each of them is done for every stage, micro-batch and
 * slice, and by no role twice. An action may be in parts with communication between, but not the same part again.
 * Different roles may do different ones: a forward here and its backward there, one micro-batch on this worker and the
 * next on that. Phases that are not named may be there as well, once.
 */
export function checkDeclaredActions(context: VerifyContext): Finding[] {
  const { stages, microbatches, slices = 1, phases: declared = [], until } = context.program.work
  const findings: Finding[] = []
  const done = new Set<string>()
  let gives = false
  for (const view of context.roles) {
    const here = new Set<string>()
    view.instructions.forEach((instruction, index) => {
      if (instruction.kind === 'move' && instruction.direction === 'out' && instruction.port === until)
        gives = true
      if (instruction.kind !== 'run' || instruction.action === undefined) return
      const action = view.role.actions[instruction.action]
      if (action === undefined) return
      if (action.stage >= stages || action.microbatch >= microbatches || (action.slice ?? 0) >= slices) {
        const has = `has ${stages} stages, ${microbatches} micro-batches and ${slices} slices`
        findings.push(
          findingAt(
            context,
            view,
            index,
            'ACTION_UNKNOWN',
            `is outside the step, which ${has}`,
            'correct it',
          ),
        )
        return
      }
      for (const phase of letters(action)) {
        const key = actionKey(phase, action.stage, action.microbatch, action.slice ?? 0)
        done.add(key)
        // An assist may be any number of pieces.
        if (isOnce(phase) || phase === 'A') continue
        const part = `${key} ${instruction.task}`
        if (here.has(part))
          findings.push(
            findingAt(context, view, index, 'ACTION_REPEATED', `is done twice: ${phase}`, 'do it once'),
          )
        here.add(part)
      }
    })
  }
  for (const phase of declared)
    for (let stage = 0; stage < stages; stage++)
      for (let microbatch = 0; microbatch < (isOnce(phase) ? 1 : microbatches); microbatch++)
        for (let slice = 0; slice < (isOnce(phase) ? 1 : slices); slice++)
          if (findings.length < most && !done.has(actionKey(phase, stage, microbatch, slice)))
            findings.push({
              code: 'ACTION_MISSING',
              message: `nobody does ${phase} of stage ${stage}, micro-batch ${microbatch}${slices === 1 ? '' : `, slice ${slice}`}`,
              fix: 'add what is missing',
              ranks: [],
              places: [],
              stage,
              microbatch,
            })
  if (until !== undefined && !gives)
    findings.push({
      code: 'PORT_MISSING',
      message: `the step is repeated until ${until} is not 0, and gives no ${until}`,
      fix: `move it out to ${until}`,
      ranks: [],
      places: [],
    })
  return findings
}

function isOnce(phase: Phase): boolean {
  return isOncePerStep({ phase })
}

function letters({ phase }: Action): readonly Phase[] {
  return phase === 'FB' ? ['F', 'B'] : [phase]
}

function actionKey(phase: Phase, stage: number, microbatch: number, slice: number): string {
  return `${phase} ${stage} ${microbatch} ${slice}`
}
