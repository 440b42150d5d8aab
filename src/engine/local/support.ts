import { exitCodes, MeshwrightError } from '../../base/index.ts'
import { eachInstruction, type Program } from '../../program/index.ts'

/** @throws MeshwrightError `ENGINE_UNSUPPORTED` where a program does something that other engines can, and this one cannot yet. */
export function requireSupported(program: Program): void {
  const reason = unsupported(program)
  if (reason === undefined) return
  throw new MeshwrightError('ENGINE_UNSUPPORTED', `the local engine cannot run this program: ${reason}`, {
    exitCode: exitCodes.run,
    hint: 'check, simulate or emulate it',
  })
}

function unsupported({ tasks, roles, mesh }: Program): string | undefined {
  for (const task of tasks) {
    if (task.kind === 'missing') return `its task ${task.name} is missing: ${task.missing}`
    if (task.kind === 'kernel' && task.kernel === 'copy') return `its task ${task.name} copies between tiers`
  }
  if (mesh.sharedOver !== undefined) return 'several of its ranks share a device'
  for (const role of roles) {
    const old = role.values.find(({ step = 0 }) => step < 0)
    if (old !== undefined) return `${role.buffers[old.buffer]!.name} is read as an earlier step left it`
    for (const instruction of eachInstruction(role.code))
      if (instruction.kind === 'collective' && instruction.reduce === 'mean')
        return `collective #${instruction.collective} takes a mean`
  }
  return undefined
}
