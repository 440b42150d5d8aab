import { arenaBytes, operandRows, valueAccesses } from '../accesses.ts'
import type { Region } from '../types.ts'
import type { Finding, InstructionPlace, RoleView, VerifyContext } from './finding.ts'

/** The static arena and the largest task workspace fit the budget of each rank. */
export function checkMemory({ roles, budgetBytes, workspaceBytes }: VerifyContext): Finding[] {
  if (budgetBytes === undefined) return []
  return roles.flatMap((view): Finding[] => {
    const arena = arenaBytes(view.role)
    const peak = arena + workspaceBytes
    if (peak <= budgetBytes) return []
    return [
      {
        code: 'MEMORY_BUDGET',
        message: `${view.role.name} needs ${peak} bytes (${arena} of buffers, ${workspaceBytes} of workspace), the budget is ${budgetBytes}`,
        fix: 'use more stages, smaller micro-batches, or a larger budget',
        ranks: view.ranks,
        places: [],
      },
    ]
  })
}

/** What a step leaves in its state is what the next one starts from: every state buffer is left alone or written whole. */
export function checkState({ roles }: VerifyContext): Finding[] {
  return roles.flatMap((view) =>
    view.role.buffers.flatMap((buffer, index) =>
      buffer.state === true ? checkStateBuffer(view, index) : [],
    ),
  )
}

function checkStateBuffer(view: RoleView, buffer: number): Finding[] {
  const { role } = view
  const spec = role.buffers[buffer]!
  const written: (Region & { readonly place: InstructionPlace })[] = []
  view.instructions.forEach((instruction, index) => {
    for (const access of valueAccesses(instruction)) {
      const instance = role.values[access.value]
      if (access.kind !== 'write' || instance?.buffer !== buffer || instance.step !== 1) continue
      written.push({ ...operandRows(role, access), place: { role: view.index, instruction: index } })
    }
  })
  if (written.length === 0) return []
  written.sort((a, b) => a.start - b.start)
  const complain = (code: string, message: string): Finding => ({
    code,
    message: `${role.name} ${message}`,
    fix: 'update every part of a state buffer once',
    ranks: view.ranks,
    places: written.map(({ place }) => place),
  })
  const rows = spec.shape[0] ?? 1
  let reached = 0
  let gap: number | undefined
  let twice: number | undefined
  for (const { start, end } of written) {
    if (start > reached) gap ??= reached
    if (start < reached) twice ??= start
    reached = Math.max(reached, end)
  }
  if (reached < rows) gap ??= reached
  return [
    ...(gap === undefined
      ? []
      : [
          complain(
            'STATE_PARTIAL',
            `updates only part of ${spec.name}: row ${gap} of ${rows} keeps its old value`,
          ),
        ]),
    ...(twice === undefined
      ? []
      : [complain('STATE_TWICE', `updates row ${twice} of ${spec.name} twice in one step`)]),
  ]
}
