import { totalmem } from 'node:os'
import { exitCodes, MeshwrightError } from '../../base/index.ts'
import { bytesPerElement, elementCount } from '../../graph/index.ts'
import { arenaBytes, type Program, type Role, readInstructions, rolesByRank } from '../../program/index.ts'
import { gibibytes, noMemoryError } from '../memory.ts'
import { canFuse, maximumPages, pageBytes } from './wasm/index.ts'
import { workingBytes } from './workingMemory.ts'

/** What the memory of one rank holds at most. */
export const rankLimit: number = maximumPages * pageBytes

/** Bytes that this process may have: those of the machine, or of the container it is in. */
function machineBytes(): number {
  const container = process.constrainedMemory()
  return container > 0 ? Math.min(container, totalmem()) : totalmem()
}

export function arenaTooLarge(rank: number, bytes: number): MeshwrightError {
  return new MeshwrightError(
    'ENGINE_ARENA_TOO_LARGE',
    `rank ${rank} needs ${gibibytes(bytes)} of tensors, the local engine has 4 GiB for each rank`,
    {
      hint: 'use more stages, smaller micro-batches or a smaller model',
      exitCode: exitCodes.infeasible,
    },
  )
}

/**
 * Why these programs, side by side, cannot run here, from what their buffers and the one state that they start from
 * take for certain; undefined where that fits. Nothing is made for them before.
 */
export function roomProblem(programs: readonly Program[]): MeshwrightError | undefined {
  for (const program of programs)
    for (const [rank, role] of rolesByRank(program).entries())
      if (arenaBytes(role) > rankLimit) return arenaTooLarge(rank, arenaBytes(role))
  const { buffers, state } = certainBytes(programs)
  const machine = machineBytes()
  if (buffers + state <= machine) return undefined
  return noMemoryError(
    `the buffers of all ranks take ${gibibytes(buffers)} and the state beside them ${gibibytes(state)}, this machine has ${gibibytes(machine)}`,
    'use a smaller model, fewer replicas or smaller micro-batches',
  )
}

/**
 * A sentence where running these programs side by side may take more memory than there is, though their buffers fit:
 * tensors inside tasks are ONNX Runtime's, which nobody bounds. They are estimated by what is live at once, of every task,
 * as each session keeps what it once took.
 */
export function memoryWarning(programs: readonly Program[]): string | undefined {
  if (roomProblem(programs) !== undefined) return undefined
  const { buffers, state } = certainBytes(programs)
  const inside = programs.reduce((sum, program) => sum + insideTasks(program), 0)
  const machine = machineBytes()
  if (buffers + state + inside <= machine) return undefined
  return (
    `this may take about ${gibibytes(buffers + state + inside)} of memory, ${gibibytes(inside)} of it inside tasks, and this machine has ` +
    `${gibibytes(machine)}: the system may end the process without a word; more and smaller micro-batches take less`
  )
}

function certainBytes(programs: readonly Program[]): { readonly buffers: number; readonly state: number } {
  const buffers = programs
    .flatMap((program) => rolesByRank(program))
    .reduce((sum, role) => sum + arenaBytes(role), 0)
  return { buffers, state: Math.max(0, ...programs.map(stateBytes)) }
}

/** Bytes of all state tensors, each once: what whoever writes the state holds of it. */
function stateBytes(program: Program): number {
  const tensors = new Map<string, number>()
  for (const { buffers } of program.roles)
    for (const { name, shape, dtype, state, pack } of buffers)
      if (state === true)
        for (const entry of pack ?? [{ name, shape }])
          tensors.set(entry.name, elementCount(entry.shape) * bytesPerElement[dtype])
  return [...tensors.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** The arena of a session grows by doubling; measured on forward and backward tasks it takes 1.8 to 2 times what is live. */
const arenaGrowth = 2

function insideTasks(program: Program): number {
  const byHash = new Map<string, number>()
  const ofRole = (role: Role): number => {
    const hashes = new Set<string>()
    let sum = 0
    for (const instruction of readInstructions(role.code)) {
      const task = instruction.kind === 'run' ? program.tasks[instruction.task] : undefined
      if (task?.kind !== 'graph' || hashes.has(task.hash)) continue
      hashes.add(task.hash)
      // A loop over elements keeps what lies between its ends in registers.
      const bytes =
        byHash.get(task.hash) ?? (canFuse(task.graph) ? 0 : arenaGrowth * workingBytes(task.graph))
      byHash.set(task.hash, bytes)
      sum += bytes
    }
    return sum
  }
  const byRole = new Map(program.roles.map((role) => [role, ofRole(role)]))
  return rolesByRank(program).reduce((sum, role) => sum + byRole.get(role)!, 0)
}
