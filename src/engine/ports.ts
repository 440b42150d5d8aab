import { exitCodes, internalError, MeshwrightError } from '../base/index.ts'
import { elementCount } from '../graph/index.ts'
import { type Program, readInstructions, replicaIndex, rolesByRank } from '../program/index.ts'
import type { StepInput } from './types.ts'

/** What a step must be given: ids of all samples of the global batch, or a number. */
export type StepPort =
  | { readonly kind: 'tensor'; readonly name: string; readonly elements: number }
  | { readonly kind: 'scalar'; readonly name: string }

/** The in ports of a program, each once. */
export function stepPorts(program: Program): StepPort[] {
  const ports = new Map<string, StepPort>()
  const moves = new Map(
    program.roles.map((role) => [
      role,
      readInstructions(role.code).filter((instruction) => instruction.kind === 'move'),
    ]),
  )
  for (const role of rolesByRank(program)) {
    // How many replicas share the samples is the same for all of them.
    const { count } = replicaIndex(program.mesh, role.pipeline, {})
    for (const { direction, port: name, value } of moves.get(role)!) {
      if (direction === 'out') continue
      const instance = role.values[value]!
      const { shape } = role.buffers[instance.buffer]!
      const batches = instance.microbatch === undefined ? 1 : program.work.microbatches
      const elements = elementCount(shape) * batches * count
      const port: StepPort =
        shape.length === 0 ? { kind: 'scalar', name } : { kind: 'tensor', name, elements }
      const known = ports.get(name)
      if (known === undefined) ports.set(name, port)
      else if (JSON.stringify(known) !== JSON.stringify(port))
        throw internalError(`stages disagree on the size of port ${name}`)
    }
  }
  return [...ports.values()]
}

/** Throws MeshwrightError `ENGINE_INPUT` where a step is not given what its program takes in. */
export function checkStepInput(ports: readonly StepPort[], input: StepInput): void {
  for (const port of ports) {
    if (port.kind === 'scalar') {
      if (input.scalars[port.name] === undefined)
        throw inputError(`the step needs the scalar ${port.name}`, `give scalars.${port.name}`)
      continue
    }
    const given = input.tensors[port.name]
    if (given === undefined)
      throw inputError(`the step needs ${port.name}`, `give tensors.${port.name}: ${port.elements} ids`)
    if (given.length !== port.elements)
      throw inputError(
        `${port.name} has ${given.length} ids, the program takes ${port.elements}`,
        'give the samples of the whole global batch, each of the sequence of the plan',
      )
  }
}

function inputError(message: string, hint: string): MeshwrightError {
  return new MeshwrightError('ENGINE_INPUT', message, { exitCode: exitCodes.run, hint })
}
