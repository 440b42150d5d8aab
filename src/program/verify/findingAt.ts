import { formatAction, formatInstruction } from '../text/instruction.ts'
import type { Instruction } from '../types.ts'
import { actionOf, type Finding, type RoleView, type VerifyContext } from './finding.ts'

export type Run = Extract<Instruction, { kind: 'run' }>

/** A finding about one instruction, which `message` goes on to speak of. */
export function findingAt(
  { program }: VerifyContext,
  view: RoleView,
  index: number,
  code: string,
  message: string,
  fix: string,
): Finding {
  const { role } = view
  const instruction = view.instructions[index]
  const action = instruction?.kind === 'run' ? role.actions[instruction.action ?? -1] : undefined
  const label = action === undefined ? '' : ` (${formatAction(action)})`
  return {
    code,
    message: `"${formatInstruction(program, role, index)}"${label} of ${role.name} ${message}`,
    fix,
    ...actionOf(view, index),
    ranks: view.ranks,
    places: [{ role: view.index, instruction: index }],
  }
}
