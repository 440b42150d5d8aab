import { type DType, elementCount, type TensorType } from '../../graph/index.ts'
import { firstGap, operandRows } from '../accesses.ts'
import { formatOperand } from '../text/operands.ts'
import type {
  GraphTask,
  Instruction,
  KernelTask,
  MeshAxis,
  MissingTask,
  Operand,
  ReadPort,
  Region,
  Role,
  RowsEntry,
  Write,
  WritePort,
} from '../types.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'
import { entryRegion } from './packs.ts'

type Run = Extract<Instruction, { kind: 'run' }>

/** Operands of every run have the types that its task declares; a write that sets, sets all of its operand. */
export function checkTypes(context: VerifyContext): Finding[] {
  return context.roles.flatMap((view) => {
    // Runs on the same buffers differ in nothing that has a type.
    const sound = new Set<string>()
    const alike = new Map<number, number>()
    const submesh = context.program.mesh.submeshes[view.role.pipeline] ?? []
    return [...view.of('run')].flatMap((index): Finding[] => {
      const model = alike.get(view.code.target[index]!)
      if (model !== undefined && sameTypes(view, model, index)) return []
      const instruction = view.instruction(index) as Run
      const key = typeKey(view.role, instruction)
      if (sound.has(key)) {
        alike.set(instruction.task, index)
        return []
      }
      const task = context.program.tasks[instruction.task]
      const message =
        task === undefined
          ? `task ${instruction.task} is not declared`
          : task.kind === 'graph'
            ? graphMismatch(view.role, submesh, task, instruction)
            : task.kind === 'missing'
              ? missingMismatch(view.role, task, instruction)
              : kernelMismatch(view.role, task, instruction)
      if (message === undefined) {
        sound.add(key)
        alike.set(instruction.task, index)
        return []
      }
      return [
        {
          code: 'OPERAND_TYPE',
          message: `${view.role.name}: ${message}`,
          fix: 'give the task the buffers it was made for',
          ranks: view.ranks,
          places: [{ role: view.index, instruction: index }],
        },
      ]
    })
  })
}

/** Whether two runs of a task name the same regions of values of the same buffers, in the same modes. */
function sameTypes({ code, values: { buffer } }: RoleView, a: number, b: number): boolean {
  const { start, operands } = code
  const [ours, theirs] = [start[a]!, start[b]!]
  const length = start[a + 1]! - ours
  if (length !== start[b + 1]! - theirs || operands[ours + 1] !== operands[theirs + 1]) return false
  const readsEnd = 2 + 2 * operands[ours + 1]!
  for (let place = 2; place < length; place += place < readsEnd ? 2 : 3) {
    if (buffer[operands[ours + place]!] !== buffer[operands[theirs + place]!]) return false
    if (operands[ours + place + 1] !== operands[theirs + place + 1]) return false
    if (place >= readsEnd && operands[ours + place + 2] !== operands[theirs + place + 2]) return false
  }
  return true
}

/** What the types of a run's operands follow from. */
function typeKey({ values }: Role, { task, reads, writes }: Run): string {
  let key = `${task}:${reads.length}`
  for (const { value, region } of reads) key += ` ${values[value]?.buffer},${region}`
  for (const { value, region, mode } of writes) key += ` ${values[value]?.buffer},${region},${mode}`
  return key
}

function graphMismatch(
  role: Role,
  submesh: readonly MeshAxis[],
  task: GraphTask,
  run: Run,
): string | undefined {
  const counts = countMismatch(task.name, run, task.reads.length, task.writes.length)
  if (counts !== undefined) return counts
  for (const [index, port] of task.reads.entries()) {
    const message = portMismatch(role, run.reads[index]!, readTypes(task, port))
    if (message !== undefined) return `${task.name} ${message}`
  }
  for (const [index, port] of task.writes.entries()) {
    const write = run.writes[index]!
    const message =
      portMismatch(role, write, writeTypes(task, port)) ??
      rowsMismatch(role, task, run, port) ??
      partlySet(role, submesh, task, write, port)
    if (message !== undefined) return `${task.name} ${message}`
  }
  return undefined
}

function kernelMismatch(role: Role, task: KernelTask, run: Run): string | undefined {
  switch (task.kernel) {
    case 'sumSquares': {
      const counts = countMismatch(task.name, run, 2, 1)
      if (counts !== undefined) return counts
      const [source, owner] = run.reads as [Operand, Operand]
      const dtype = role.buffers[role.values[source.value]?.buffer ?? -1]?.dtype
      if (dtype !== 'f32' && dtype !== 'f64')
        return `${task.name} adds squares of floats, ${formatOperand(role, source)} is ${dtype}`
      for (const scalar of [owner, run.writes[0]!]) {
        const message = portMismatch(role, scalar, [{ type: { dtype: 'f64', shape: [] }, offset: undefined }])
        if (message !== undefined) return `${task.name} ${message}`
      }
      return undefined
    }
    case 'copy': {
      const counts = countMismatch(task.name, run, 1, 1)
      if (counts !== undefined) return counts
      const source = run.reads[0]!
      const dtype = role.buffers[role.values[source.value]?.buffer ?? -1]?.dtype
      if (dtype === undefined) return `${task.name} names a buffer that is not declared`
      const type = { dtype, shape: [operandElements(role, source)] }
      const message = portMismatch(role, run.writes[0]!, [{ type, offset: undefined }])
      return message === undefined ? undefined : `${task.name} ${message}`
    }
  }
}

function missingMismatch(role: Role, task: MissingTask, run: Run): string | undefined {
  const counts = countMismatch(task.name, run, task.reads.length, task.writes.length)
  if (counts !== undefined) return counts
  const operands = [...run.reads, ...run.writes]
  for (const [index, type] of [...task.reads, ...task.writes].entries()) {
    const message = portMismatch(role, operands[index]!, [{ type, offset: undefined }])
    if (message !== undefined) return `${task.name} ${message}`
  }
  return undefined
}

function countMismatch(name: string, run: Run, reads: number, writes: number): string | undefined {
  if (run.reads.length === reads && run.writes.length === writes) return undefined
  return `${name} takes ${reads} and gives ${writes} operands, the run names ${run.reads.length} and ${run.writes.length}`
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

function writeTypes(task: GraphTask, port: WritePort): Placed[] {
  if (port.kind === 'tensor') return [{ type: outputType(task, port.output), offset: undefined }]
  return [
    ...port.entries.map(({ output, offset }) => ({ type: outputType(task, output), offset })),
    ...port.rows.map(({ values, offset, rows, rowElements }) => ({
      type: { dtype: outputType(task, values).dtype, shape: [rows, rowElements] },
      offset,
    })),
  ]
}

function outputType({ graph }: GraphTask, output: number): TensorType {
  return graph.values[graph.outputs[output]!.value]!.type
}

function portMismatch(role: Role, operand: Operand, tensors: readonly Placed[]): string | undefined {
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  if (buffer === undefined) return 'names a buffer that is not declared'
  const elements = operandElements(role, operand)
  for (const { type, offset } of tensors) {
    const needed = elementCount(type.shape)
    const fits = offset === undefined ? needed === elements : offset >= 0 && offset + needed <= elements
    if (!fits || type.dtype !== buffer.dtype)
      return `needs ${type.dtype}[${type.shape.join(', ')}]${offset === undefined ? '' : ` at element ${offset}`}, ${formatOperand(role, operand)} is ${buffer.dtype} of ${elements} elements`
  }
  return undefined
}

/** Rows to be added are as many as their ids, and ids are whole numbers. */
function rowsMismatch(role: Role, task: GraphTask, run: Run, port: WritePort): string | undefined {
  if (port.kind === 'tensor') return undefined
  for (const { values, ids, rowElements } of port.rows) {
    const { dtype, elements } = idsOf(role, task, run, ids)
    const given = elementCount(outputType(task, values).shape)
    if (dtype !== 'i32')
      return `takes ids from ${dtype === undefined ? 'no operand' : dtype}, and ids are i32`
    if (given !== elements * rowElements)
      return `adds ${given} elements as ${elements} rows of ${rowElements}`
  }
  return undefined
}

function idsOf(
  role: Role,
  task: GraphTask,
  run: Run,
  ids: RowsEntry['ids'],
): { readonly dtype: DType | undefined; readonly elements: number } {
  if ('output' in ids) {
    const { dtype, shape } = outputType(task, ids.output)
    return { dtype, elements: elementCount(shape) }
  }
  const operand = run.reads[ids.read]
  if (operand === undefined) return { dtype: undefined, elements: 0 }
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  return { dtype: buffer?.dtype, elements: operandElements(role, operand) }
}

/** In mode `set`, what a pack write leaves alone would keep whatever was in its slot. */
function partlySet(
  role: Role,
  submesh: readonly MeshAxis[],
  task: GraphTask,
  write: Write,
  port: WritePort,
): string | undefined {
  if (port.kind === 'tensor' || write.mode === 'add') return undefined
  const covered: Region[] = [
    ...port.entries.map(({ output, offset }) => ({
      start: offset,
      end: offset + elementCount(outputType(task, output).shape),
    })),
    ...port.rows
      .filter(({ clears }) => clears)
      .map(({ offset, rows, rowElements }) => ({ start: offset, end: offset + rows * rowElements })),
  ]
  const { start, end } = operandRange(role, write)
  const entries = role.buffers[role.values[write.value]?.buffer ?? -1]?.pack
  // Between the tensors of a buffer there may be padding.
  const needed = entries?.map((entry) => entryRegion(entry, submesh)) ?? [{ start, end }]
  for (const part of needed) {
    const inside = { start: Math.max(part.start, start) - start, end: Math.min(part.end, end) - start }
    const gap = inside.start < inside.end ? firstGap(covered, inside) : undefined
    if (gap !== undefined)
      return `sets only part of ${formatOperand(role, write)}: element ${gap} is written by nothing`
  }
  return undefined
}

function operandElements(role: Role, operand: Operand): number {
  const { start, end } = operandRange(role, operand)
  return end - start
}

/** Elements of the buffer that the operand covers. */
function operandRange(role: Role, operand: Operand): Region {
  const shape = role.buffers[role.values[operand.value]?.buffer ?? -1]?.shape ?? []
  const rowElements = elementCount(shape.slice(1))
  const { start, end } = operandRows(role, operand)
  return { start: start * rowElements, end: end * rowElements }
}
