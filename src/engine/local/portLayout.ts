import { internalError } from '../../base/index.ts'
import { bytesPerElement, elementCount } from '../../graph/index.ts'
import { coordinatesOf, type Program, type Role, readInstructions } from '../../program/index.ts'
import { type StepPort, stepPorts } from '../ports.ts'
import { isFirstHolder } from '../state.ts'

/** What a step is given, at byte `offset`. Tensors hold the samples of all micro-batches, in order. */
export type InputPort = StepPort & { readonly offset: number }

/** What one rank leaves of an out port: a scalar, or all that it holds of one flat buffer. */
export interface OutputPort {
  readonly kind: 'scalar' | 'pack'
  readonly name: string
  readonly rank: number
  readonly value: number
  readonly offset: number
}

export interface PortLayout {
  readonly inputs: readonly InputPort[]
  readonly outputs: readonly OutputPort[]
}

/** Gives each port that instructions name a place; `take` hands out bytes of the host tier. */
export function portLayout(
  program: Program,
  roles: readonly Role[],
  take: (bytes: number) => number,
): PortLayout {
  const inputs = stepPorts(program).map(
    (port): InputPort => ({ ...port, offset: take(port.kind === 'scalar' ? 8 : port.elements * 4) }),
  )
  const outputs: OutputPort[] = []
  roles.forEach((role, rank) => {
    const own = coordinatesOf(program.mesh, rank)
    for (const instruction of readInstructions(role.code)) {
      if (instruction.kind !== 'move' || instruction.direction === 'in') continue
      const { port: name, value } = instruction
      if (outputs.some((known) => known.rank === rank && known.name === name && known.value === value))
        continue
      const spec = role.buffers[role.values[value]!.buffer]!
      const { shape, dtype, pack } = spec
      // Of those who hold the same the first gives it.
      if (!isFirstHolder(spec, program.mesh, own)) continue
      const kind = shape.length === 0 ? 'scalar' : 'pack'
      if (kind === 'pack' && pack === undefined) throw internalError(`port ${name} takes packs and scalars`)
      const bytes = kind === 'scalar' ? 8 : elementCount(shape) * bytesPerElement[dtype]
      outputs.push({ kind, name, rank, value, offset: take(bytes) })
    }
  })
  return { inputs, outputs }
}
