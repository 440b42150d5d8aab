import { arenaBytes, operandRows } from '../accesses.ts'
import { columnAccess, visitColumnAccesses } from '../columnAccesses.ts'
import type { ProgramMesh, Region, Work } from '../types.ts'
import type { Finding, InstructionPlace, RoleView, VerifyContext } from './finding.ts'
import { checkOwners, checkPackLayouts } from './packs.ts'

/** The static arena and the largest task workspace fit the budget of each rank. */
export function checkMemory({ program, roles, budgetBytes, workspaceBytes }: VerifyContext): Finding[] {
  if (budgetBytes === undefined) return []
  return roles.flatMap((view): Finding[] => {
    const arena = arenaBytes(view.role)
    const sharers = sharersOf(program.mesh, view.role.pipeline)
    const peak = sharers * (arena + workspaceBytes)
    if (peak <= budgetBytes) return []
    const ranks = sharers === 1 ? '' : `${sharers} ranks of a device need as much; `
    return [
      {
        code: 'MEMORY_BUDGET',
        message: `${view.role.name} needs ${peak} bytes (${ranks}${arena} of buffers, ${workspaceBytes} of workspace), the budget is ${budgetBytes}`,
        fix: 'use more stages, smaller micro-batches, or a larger budget',
        ranks: view.ranks,
        places: [],
      },
    ]
  })
}

/** How many ranks share each device at a pipeline coordinate. Taken to need as much as each other. */
function sharersOf({ submeshes, sharedOver }: ProgramMesh, pipeline: number): number {
  return (submeshes[pipeline] ?? []).reduce(
    (count, { name, size }) => (sharedOver?.includes(name) === true ? count * size : count),
    1,
  )
}

/**
 * A step leaves a next version of all of its state, made once, but of what is frozen; one that infers leaves all of its
 * state alone.
 */
export function checkState(context: VerifyContext): Finding[] {
  const { roles, program } = context
  const { method } = program.work
  return [
    ...roles.flatMap((view) => {
      const written = writtenState(view)
      return view.role.buffers.flatMap((buffer, index) =>
        buffer.state === true ? checkStateBuffer(view, index, method, written.get(index) ?? []) : [],
      )
    }),
    ...checkPackLayouts(context),
    ...checkOwners(context),
  ]
}

interface Written extends Region {
  readonly place: InstructionPlace
}

/** What is written of next versions, by buffer. */
function writtenState({ role, code, values, index: roleIndex }: RoleView): Map<number, Written[]> {
  const written = new Map<number, Written[]>()
  let instruction = 0
  const visit = (value: number, region: number, access: number): void => {
    if (access !== columnAccess.write || values.step[value] !== 1) return
    const rows = operandRows(role, region < 0 ? { value } : { value, region })
    const buffer = values.buffer[value]!
    const known = written.get(buffer) ?? []
    written.set(buffer, known)
    known.push({ ...rows, place: { role: roleIndex, instruction } })
  }
  for (; instruction < code.length; instruction++) visitColumnAccesses(code, instruction, visit)
  return written
}

function checkStateBuffer(
  view: RoleView,
  buffer: number,
  method: Work['method'],
  written: Written[],
): Finding[] {
  const { role } = view
  const spec = role.buffers[buffer]!
  written.sort((a, b) => a.start - b.start)
  const complain = (code: string, message: string): Finding => ({
    code,
    message: `${role.name} ${message}`,
    fix: 'update every part of a state buffer once',
    ranks: view.ranks,
    places: written.map(({ place }) => place),
  })
  if (written.length === 0)
    return method !== 'infer' && spec.frozen !== true
      ? [complain('STATE_KEPT', `leaves ${spec.name} as it was: the step trains it not at all`)]
      : []
  if (method === 'infer' || spec.frozen === true)
    return [
      complain(
        'STATE_CHANGED',
        `writes ${spec.name}${spec.frozen === true ? ', which is frozen' : ' in a step that does not train'}`,
      ),
    ]
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
