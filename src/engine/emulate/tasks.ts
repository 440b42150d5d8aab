import { assertNever, internalError, MeshwrightError } from '../../base/index.ts'
import {
  elementCount,
  interpretGraph,
  isFloat,
  nonFiniteElement,
  type Tensor,
  type TensorData,
  type TensorType,
} from '../../graph/index.ts'
import type { Instruction, Program, Role, RowsEntry, Write } from '../../program/index.ts'
import { outputElement, type RunPlace } from '../elementNames.ts'
import { EmulationError, type Range, type RankMemory } from './memory.ts'

type Run = Extract<Instruction, { kind: 'run' }>

/** Runs a task on the buffers of one rank. */
export function runTask(program: Program, role: Role, rank: number, run: Run, memory: RankMemory): void {
  const task = program.tasks[run.task]
  if (task === undefined) throw internalError(`no task ${run.task}`)
  if (task.kind === 'graph') {
    runGraph({ program, role, rank, run, task }, memory)
    return
  }
  if (task.kind === 'missing')
    throw new EmulationError('EMULATE_MISSING', `runs ${task.name}, which is missing: ${task.missing}`)
  switch (task.kernel) {
    case 'sumSquares':
      runSumSquares(run, memory)
      return
    case 'copy':
      runCopy(role, run, memory)
      return
    default:
      assertNever(task.kernel)
  }
}

function runGraph(place: RunPlace, memory: RankMemory): void {
  const { role, run, task } = place
  const { graph } = task
  if (run.reads.length !== task.reads.length || run.writes.length !== task.writes.length)
    throw new EmulationError(
      'EMULATE_TASK',
      `gives ${task.name} ${run.reads.length} reads and ${run.writes.length} writes, it has ${task.reads.length} and ${task.writes.length}`,
    )
  const inputs = new Map<string, Tensor>()
  run.reads.forEach((operand, index) => {
    const port = task.reads[index]!
    const range = memory.range(operand)
    if (port.kind === 'ids') {
      memory.requireWritten(operand, range)
      return
    }
    const entries = port.kind === 'tensor' ? [{ input: port.input, offset: undefined }] : port.entries
    for (const { input, offset } of entries) {
      const { name, value } = graph.inputs[input]!
      const { type } = graph.values[value]!
      const part = partOf(role, range, offset, type, name)
      memory.requireWritten(operand, part)
      inputs.set(name, { type, data: memory.elements(part).slice() })
    }
  })
  const results = interpret(place, inputs)
  const output = (index: number): TensorData => results.get(graph.outputs[index]!.name)!.data
  // Ids are read before anything is written: a write may end their life.
  const rows = task.writes.map((port) =>
    port.kind === 'pack' ? port.rows.map((entry) => ({ entry, ids: idsOf(run, entry, memory, output) })) : [],
  )
  run.writes.forEach((write, index) => {
    const port = task.writes[index]!
    const range = memory.range(write)
    const entries = port.kind === 'tensor' ? [{ output: port.output, offset: undefined }] : port.entries
    for (const { output: from, offset } of entries) {
      const { name, value } = graph.outputs[from]!
      const part = partOf(role, range, offset, graph.values[value]!.type, name)
      store(write, part, output(from), memory)
    }
    if (port.kind === 'pack' && write.mode === 'set') memory.clearPadding(range)
    for (const { entry, ids } of rows[index]!)
      storeRows(role, write, range, entry, ids, output(entry.values), memory)
  })
}

function interpret(place: RunPlace, inputs: ReadonlyMap<string, Tensor>): Map<string, Tensor> {
  const { graph } = place.task
  let results: Map<string, Tensor>
  try {
    results = interpretGraph(graph, inputs)
  } catch (error) {
    if (error instanceof MeshwrightError) throw new EmulationError('EMULATE_TASK', error.message, error)
    throw error
  }
  for (const [output, { name }] of graph.outputs.entries()) {
    const tensor = results.get(name)!
    const element = isFloat(tensor.type.dtype) ? nonFiniteElement(tensor) : undefined
    if (element !== undefined)
      throw new EmulationError(
        'EMULATE_NON_FINITE',
        `yields ${tensor.data[element]} in ${name}, ${outputElement(place, output, element)}`,
      )
  }
  return results
}

/** The elements of `range` that a tensor of `type` takes at `offset`, or all of them where it is the whole operand. */
function partOf(role: Role, range: Range, offset: number | undefined, type: TensorType, name: string): Range {
  const buffer = role.buffers[range.buffer]!
  const count = elementCount(type.shape)
  const elements = range.end - range.start
  const start = range.start + (offset ?? 0)
  if (type.dtype !== buffer.dtype)
    throw new EmulationError(
      'EMULATE_TYPE',
      `binds ${name} of ${type.dtype} to ${buffer.name} of ${buffer.dtype}`,
    )
  if (offset === undefined ? count !== elements : offset < 0 || start + count > range.end)
    throw new EmulationError(
      'EMULATE_REGION',
      `binds ${count} elements of ${name}${offset === undefined ? '' : ` at ${offset}`} to ${elements} of ${buffer.name}`,
    )
  return { ...range, start, end: start + count }
}

function store(write: Write, range: Range, data: ArrayLike<number>, memory: RankMemory): void {
  if (write.mode === 'add') memory.requireWritten(write, range, 'adds to')
  memory.claim(write, range)
  const target = memory.elements(range)
  if (write.mode === 'set') target.set(data)
  else for (let index = 0; index < data.length; index++) target[index]! += data[index]!
}

function idsOf(
  run: Run,
  entry: RowsEntry,
  memory: RankMemory,
  output: (index: number) => TensorData,
): TensorData {
  if ('output' in entry.ids) return output(entry.ids.output)
  const operand = run.reads[entry.ids.read]
  if (operand === undefined) throw internalError(`no read operand ${entry.ids.read} for ids`)
  return memory.elements(memory.range(operand)).slice()
}

function storeRows(
  role: Role,
  write: Write,
  range: Range,
  entry: RowsEntry,
  ids: TensorData,
  values: TensorData,
  memory: RankMemory,
): void {
  const { rows, rowElements, offset } = entry
  const buffer = role.buffers[range.buffer]!
  const type: TensorType = { dtype: buffer.dtype, shape: [rows, rowElements] }
  const table = partOf(role, range, offset, type, 'a table')
  if (values.length !== ids.length * rowElements)
    throw new EmulationError(
      'EMULATE_TASK',
      `adds ${values.length} elements as ${ids.length} rows of ${rowElements} to ${buffer.name}`,
    )
  if (write.mode === 'set' && entry.clears) {
    memory.claim(write, table)
    memory.elements(table).fill(0)
  } else memory.requireWritten(write, table, 'adds rows to')
  const target = memory.elements(table)
  ids.forEach((id, row) => {
    if (id < 0) return
    if (id >= rows) throw new EmulationError('EMULATE_ID', `adds to row ${id} of ${rows} in ${buffer.name}`)
    for (let column = 0; column < rowElements; column++)
      target[id * rowElements + column]! += values[row * rowElements + column]!
  })
}

function runCopy(role: Role, run: Run, memory: RankMemory): void {
  const [source] = run.reads
  const [write] = run.writes
  if (source === undefined || write === undefined)
    throw new EmulationError('EMULATE_TASK', 'copy reads one value and writes one')
  const from = memory.range(source)
  memory.requireWritten(source, from)
  const values = memory.elements(from).slice()
  const to = memory.range(write)
  if (to.end - to.start !== values.length)
    throw new EmulationError('EMULATE_TASK', `copies ${values.length} elements to ${to.end - to.start}`)
  const [given, taken] = [from, to].map(({ buffer }) => role.buffers[buffer]!)
  if (given!.dtype !== taken!.dtype)
    throw new EmulationError('EMULATE_TYPE', `copies ${given!.dtype} to ${taken!.name} of ${taken!.dtype}`)
  store(write, to, values, memory)
}

function runSumSquares(run: Run, memory: RankMemory): void {
  const [source, owner] = run.reads
  const [write] = run.writes
  if (source === undefined || owner === undefined || write === undefined)
    throw new EmulationError('EMULATE_TASK', 'sumSquares reads a region and an owner, and writes a scalar')
  const [values, weights] = [source, owner].map((operand) => {
    const range = memory.range(operand)
    memory.requireWritten(operand, range)
    return memory.elements(range)
  }) as [TensorData, TensorData]
  const target = memory.range(write)
  if (weights.length !== 1 || target.end - target.start !== 1)
    throw new EmulationError('EMULATE_TASK', 'sumSquares takes one owner and gives one sum')
  let sum = 0
  for (const value of values) sum += value * value
  store(write, target, [weights[0]! * sum], memory)
}
