import { exitCodes, MeshwrightError } from '../../base/index.ts'
import { formatInstruction, type Program, type Role, readInstruction } from '../../program/index.ts'
import type { FailureReport } from './protocol.ts'
import { activities, type Signals } from './signals.ts'

/** The error a person sees when a rank fails: which rank, at what, and why. */
export function runFailure(
  program: Program,
  roles: readonly Role[],
  rank: number,
  report: FailureReport,
): MeshwrightError {
  const place = report.instruction === undefined ? '' : placeText(program, roles[rank]!, report.instruction)
  const cause =
    report.stack === undefined ? undefined : Object.assign(new Error(report.message), { stack: report.stack })
  return new MeshwrightError(report.code, `rank ${rank}${place}: ${report.message}`, {
    exitCode: exitCodes.run,
    ...(report.hint === undefined ? {} : { hint: report.hint }),
    ...(cause === undefined ? {} : { cause }),
  })
}

/** `, stage 1, micro-batch 0, at instruction 12 (run B1 …)` */
function placeText(program: Program, role: Role, index: number): string {
  const instruction = readInstruction(role.code, index)
  const action =
    instruction.kind === 'run' && instruction.action !== undefined
      ? role.actions[instruction.action]
      : undefined
  const values =
    instruction.kind === 'exchange'
      ? instruction.parts.map((part) => part.value)
      : instruction.kind === 'move'
        ? [instruction.value]
        : []
  const microbatch =
    action?.microbatch ??
    values.map((value) => role.values[value]?.microbatch).find((one) => one !== undefined)
  const stage = action?.stage ?? role.pipeline
  const where = microbatch === undefined ? `, stage ${stage}` : `, stage ${stage}, micro-batch ${microbatch}`
  return `${where}, at instruction ${index} (${formatInstruction(program, role, index)})`
}

export function diedError(
  program: Program,
  roles: readonly Role[],
  rank: number,
  instruction: number | undefined,
  cause: string,
): MeshwrightError {
  const report = {
    code: 'RUN_WORKER_DIED',
    message: `its worker ended: ${cause}`,
    hint: undefined,
    exitCode: undefined,
  }
  return runFailure(program, roles, rank, { ...report, instruction, stack: undefined })
}

/** Nothing moves: either one rank hangs and others wait for it, or all wait. */
export function hangError(
  program: Program,
  roles: readonly Role[],
  signals: Signals,
  unfinished: readonly number[],
  seconds: number,
): { readonly rank: number; readonly error: MeshwrightError } {
  const waiting = unfinished.filter((rank) => signals.activity(rank) === activities.waiting)
  const culprit = unfinished.find((rank) => !waiting.includes(rank))
  const rank = culprit ?? unfinished[0]!
  const others = unfinished
    .filter((one) => one !== rank)
    .slice(0, 4)
    .map((one) => `rank ${one} waits in ${formatInstruction(program, roles[one]!, signals.instruction(one))}`)
  const list = others.length === 0 ? '' : `; ${others.join('; ')}`
  const report: FailureReport = {
    instruction: signals.instruction(rank),
    code: culprit === undefined ? 'RUN_DEADLOCK' : 'RUN_HUNG',
    message:
      culprit === undefined
        ? `every rank has waited for ${seconds} s${list}`
        : `no progress for ${seconds} s while others wait${list}`,
    hint:
      culprit === undefined
        ? 'the program cannot go on: `meshwright check` shows the cycle'
        : 'a task that may take longer needs a larger hang time',
    exitCode: undefined,
    stack: undefined,
  }
  return { rank, error: runFailure(program, roles, rank, report) }
}
