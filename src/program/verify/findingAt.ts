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
  const instruction = view.instruction(index)
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

export type Complain = (code: string, message: string, fix: string) => void

/** One finding for each kind of thing that is wrong with an instruction, however many operands it concerns. */
export function complaints(
  context: VerifyContext,
  view: RoleView,
  index: number,
  check: (complain: Complain) => void,
): Finding[] {
  const byCode = new Map<string, { readonly message: string; readonly fix: string; count: number }>()
  check((code, message, fix) => {
    const known = byCode.get(code)
    if (known === undefined) byCode.set(code, { message, fix, count: 1 })
    else known.count++
  })
  return [...byCode].map(([code, { message, fix, count }]) =>
    findingAt(context, view, index, code, count === 1 ? message : `${message}, and ${count - 1} more`, fix),
  )
}
