import { formatOperand } from '../text/operands.ts'
import { type Finding, isOncePerStep, type RoleView, type VerifyContext } from './finding.ts'
import { complaints } from './findingAt.ts'

/**
 * Of a program that says itself which phases its step has, names of buffers mean nothing: what is left to hold a run to is
 * that values of a micro-batch are those of its action's, and that what it makes of a slice is of its action's slice or an
 * earlier one (which a later one adds to on the way back).
 */
export function checkDeclaredRuns(context: VerifyContext, view: RoleView): Finding[] {
  const { role } = view
  return view.instructions.flatMap((instruction, index): Finding[] => {
    if (instruction.kind !== 'run' || instruction.action === undefined) return []
    const action = role.actions[instruction.action]
    if (action === undefined || isOncePerStep(action)) return []
    return complaints(context, view, index, (complain) => {
      for (const operand of [...instruction.reads, ...instruction.writes]) {
        const instance = role.values[operand.value]
        if (instance?.microbatch !== undefined && instance.microbatch !== action.microbatch)
          complain(
            'BINDING_MICROBATCH',
            `has ${formatOperand(role, operand)}`,
            'name the value of its own micro-batch',
          )
        if (instance?.slice !== undefined && action.slice !== undefined && instance.slice > action.slice)
          complain(
            'BINDING_SLICE',
            `has ${formatOperand(role, operand)}`,
            'name its own slice, or one before it',
          )
      }
    })
  })
}
