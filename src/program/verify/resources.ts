import { arenaBytes, operandRows } from '../accesses.ts'
import type { Region } from '../types.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'

/** The static arena and the largest task workspace fit the budget of each rank. */
export function checkMemory({ roles, budgetBytes, workspaceBytes }: VerifyContext): Finding[] {
  if (budgetBytes === undefined) return []
  return roles.flatMap((view): Finding[] => {
    const peak = arenaBytes(view.role) + workspaceBytes
    if (peak <= budgetBytes) return []
    return [
      {
        code: 'MEMORY_BUDGET',
        message: `${view.role.name} needs ${peak} bytes (${arenaBytes(view.role)} of buffers, ${workspaceBytes} of workspace), the budget is ${budgetBytes}`,
        fix: 'use more stages, smaller micro-batches, or a larger budget',
        ranks: view.ranks,
        places: [],
      },
    ]
  })
}

/** What a step leaves in its state is what the next one starts from: every state buffer is left alone or written whole. */
export function checkState({ roles }: VerifyContext): Finding[] {
  return roles.flatMap((view) => view.role.buffers.flatMap((_, buffer) => checkStateBuffer(view, buffer)))
}

function checkStateBuffer(view: RoleView, buffer: number): Finding[] {
  const { role } = view
  const spec = role.buffers[buffer]!
  if (spec.state !== true) return []
  const written: Region[] = []
  const places: { role: number; instruction: number }[] = []
  view.instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'run') return
    for (const write of instruction.writes) {
      const instance = role.values[write.value]
      if (instance?.buffer !== buffer || instance.step !== 1) continue
      written.push(operandRows(role, write))
      places.push({ role: view.index, instruction: index })
    }
  })
  if (written.length === 0) return []
  const rows = spec.shape[0] ?? 1
  written.sort((a, b) => a.start - b.start)
  let reached = 0
  let twice = false
  for (const region of written) {
    if (region.start < reached) twice = true
    if (region.start > reached) break
    reached = Math.max(reached, region.end)
  }
  if (reached >= rows && !twice) return []
  return [
    {
      code: 'STATE_PARTIAL',
      message: twice
        ? `${role.name} updates part of ${spec.name} twice in one step`
        : `${role.name} updates only part of ${spec.name}: row ${reached} of ${rows} keeps its old value`,
      fix: 'update every part of a state buffer once',
      ranks: view.ranks,
      places,
    },
  ]
}
