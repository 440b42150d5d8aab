import type { TensorType } from '../../graph/index.ts'
import { operandRows } from '../accesses.ts'
import { formatOperand } from '../text/instruction.ts'
import type { GraphTask, Instruction, Operand, ReadPort, Role, WritePort } from '../types.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'

/** Operands of every run have the types that its task declares. */
export function checkTypes(context: VerifyContext): Finding[] {
  return context.roles.flatMap((view) =>
    view.instructions.flatMap((instruction, index): Finding[] => {
      if (instruction.kind !== 'run') return []
      const task = context.program.tasks[instruction.task]
      const message =
        task === undefined
          ? `task ${instruction.task} is not declared`
          : task.kind === 'graph'
            ? graphMismatch(view.role, task, instruction)
            : undefined
      if (message === undefined) return []
      return [
        {
          code: 'OPERAND_TYPE',
          message: `${view.role.name}: ${message}`,
          fix: 'give the task the buffers it was made for',
          ranks: view.ranks,
          places: [{ role: view.index, instruction: index }],
        },
      ]
    }),
  )
}

function graphMismatch(
  role: Role,
  task: GraphTask,
  run: Extract<Instruction, { kind: 'run' }>,
): string | undefined {
  if (run.reads.length !== task.reads.length || run.writes.length !== task.writes.length)
    return `${task.name} takes ${task.reads.length} and gives ${task.writes.length} operands, the run names ${run.reads.length} and ${run.writes.length}`
  for (const [index, port] of task.reads.entries()) {
    const message = portMismatch(role, run.reads[index]!, readTypes(task, port))
    if (message !== undefined) return `${task.name} ${message}`
  }
  for (const [index, port] of task.writes.entries()) {
    const message = portMismatch(role, run.writes[index]!, writeTypes(task, port))
    if (message !== undefined) return `${task.name} ${message}`
  }
  return undefined
}

interface Placed {
  readonly type: TensorType
  /** Elements from the operand's start; undefined when the tensor is the whole operand. */
  readonly offset: number | undefined
}

function readTypes({ graph }: GraphTask, port: ReadPort): Placed[] {
  const type = (input: number): TensorType => graph.values[graph.inputs[input]!.value]!.type
  switch (port.kind) {
    case 'tensor':
      return [{ type: type(port.input), offset: undefined }]
    case 'pack':
      return port.entries.map(({ input, offset }) => ({ type: type(input), offset }))
    case 'ids':
      return []
  }
}

function writeTypes({ graph }: GraphTask, port: WritePort): Placed[] {
  const type = (output: number): TensorType => graph.values[graph.outputs[output]!.value]!.type
  if (port.kind === 'tensor') return [{ type: type(port.output), offset: undefined }]
  return port.entries.map(({ output, offset }) => ({ type: type(output), offset }))
}

function portMismatch(role: Role, operand: Operand, tensors: readonly Placed[]): string | undefined {
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  if (buffer === undefined) return 'names a buffer that is not declared'
  const rowElements = buffer.shape.slice(1).reduce((product, size) => product * size, 1)
  const rows = operandRows(role, operand)
  const elements = (rows.end - rows.start) * rowElements
  for (const { type, offset } of tensors) {
    const needed = type.shape.reduce((product, size) => product * size, 1)
    const fits = offset === undefined ? needed === elements : offset + needed <= elements
    if (!fits || type.dtype !== buffer.dtype)
      return `needs ${type.dtype}[${type.shape.join(', ')}]${offset === undefined ? '' : ` at element ${offset}`}, ${formatOperand(role, operand)} is ${buffer.dtype} of ${elements} elements`
  }
  return undefined
}
