import { internalError } from '../../base/index.ts'
import { elementCount, isFloat } from '../../graph/index.ts'
import {
  type Instruction,
  localElements,
  type MeshAxis,
  type Operand,
  operandElements,
  type ReadPort,
  type Region,
  type Role,
  type Task,
  type WritePort,
} from '../../program/index.ts'
import { type ArenaLayout, overlaps, type Place, placeBytes, viewOf } from './arena.ts'

type Run = Extract<Instruction, { kind: 'run' }>
type GraphTask = Extract<Task, { kind: 'graph' }>

/** What follows a graph's own work, on outputs that could not go to their destination directly. */
export type AfterStep =
  | { readonly kind: 'copy' | 'add'; readonly destination: Place; readonly source: Place }
  | { readonly kind: 'zero'; readonly destination: Place }
  | {
      readonly kind: 'addRows'
      readonly table: Place
      readonly ids: Place
      readonly values: Place
      readonly rowElements: number
      readonly tableRows: number
    }

/** An output to be looked through for NaN and infinity. */
export interface Check {
  readonly name: string
  /** Which output of the graph it is. */
  readonly output: number
  readonly place: Place
}

/** A run of a graph with every operand resolved to places. Pure data: equal plans do exactly the same. */
export interface GraphRunPlan {
  readonly kind: 'graph'
  /** One for each input and output of the graph, in order. */
  readonly inputs: readonly Place[]
  readonly outputs: readonly Place[]
  readonly after: readonly AfterStep[]
  readonly checks: readonly Check[]
  readonly workspaceBytes: number
}

export interface KernelRunPlan {
  readonly kind: 'kernel'
  readonly source: Place
  readonly owner: Place
  readonly destination: Place
  readonly add: boolean
}

/**
 * Resolves one `run` of a graph task. An output is written where it belongs if its mode is `set` and that touches
 * nothing the graph still reads; else it goes to the workspace, which begins at byte `workspace` of the arena's memory,
 * and a kernel brings it home. `inPlace` says that the graph may write an output exactly over an input: a loop that
 * reads each element before it writes it.
 */
export function planGraphRun(
  run: Run,
  task: GraphTask,
  role: Role,
  submesh: readonly MeshAxis[],
  arena: ArenaLayout,
  workspace: number,
  inPlace: boolean,
): GraphRunPlan {
  const { graph } = task
  const inputs = resolveInputs(run, task, arena)
  const outputs: (Place | undefined)[] = graph.outputs.map(() => undefined)
  const after: AfterStep[] = []
  const checks = new Map<number, Check>()
  let top = workspace
  const typeOf = (output: number): Place => {
    const { type } = graph.values[graph.outputs[output]!.value]!
    return { pointer: 0, dtype: type.dtype, shape: type.shape, count: elementCount(type.shape) }
  }
  const source = (output: number): Place => {
    const known = outputs[output]
    if (known !== undefined) return known
    const place = { ...typeOf(output), pointer: top }
    top += Math.ceil(placeBytes(place) / 64) * 64
    outputs[output] = place
    return place
  }
  const mayBeHome = (home: Place): boolean =>
    inputs.every(
      (input) =>
        !overlaps(input, home) ||
        (inPlace &&
          input.pointer === home.pointer &&
          input.dtype === home.dtype &&
          input.count === home.count),
    ) && outputs.every((other) => other === undefined || !overlaps(other, home))
  const deliver = (output: number, home: Place, mode: 'set' | 'add'): void => {
    if (mode === 'set' && outputs[output] === undefined && mayBeHome(home)) outputs[output] = home
    else after.push({ kind: mode === 'set' ? 'copy' : 'add', destination: home, source: source(output) })
  }
  run.writes.forEach((write, index) => {
    const port = task.writes[index]
    if (port === undefined) throw internalError(`task ${task.name} has no write port ${index}`)
    const place = arena.operand(write)
    for (const { output, offset } of portOutputs(port)) {
      const { dtype, shape } = typeOf(output)
      const home = viewOf(place, offset, dtype, shape)
      if (dtype !== place.dtype) throw internalError(`task ${task.name} writes ${dtype} into ${place.dtype}`)
      checkInside(place, home, task.name)
      deliver(output, home, write.mode)
    }
    if (port.kind === 'pack' && write.mode === 'set')
      for (const { start, end } of paddingWithin(role, write, submesh))
        after.push({ kind: 'zero', destination: viewOf(place, start, place.dtype, [end - start]) })
    if (port.kind === 'pack')
      for (const entry of port.rows) {
        const table = viewOf(place, entry.offset, place.dtype, [entry.rows, entry.rowElements])
        checkInside(place, table, task.name)
        if (write.mode === 'set' && entry.clears) after.push({ kind: 'zero', destination: table })
        const ids = 'read' in entry.ids ? arena.operand(run.reads[entry.ids.read]!) : source(entry.ids.output)
        const values = source(entry.values)
        if (values.count !== ids.count * entry.rowElements)
          throw internalError(`task ${task.name}: ${ids.count} ids for ${values.count} elements of rows`)
        const { rowElements, rows: tableRows } = entry
        after.push({ kind: 'addRows', table, ids, values, rowElements, tableRows })
      }
    const state = role.buffers[role.values[write.value]!.buffer]!.state === true
    for (const output of writtenOutputs(port))
      if (!state && isFloat(typeOf(output).dtype))
        checks.set(output, { name: graph.outputs[output]!.name, output, place: source(output) })
  })
  const resolved = outputs.map((_, output) => source(output))
  return {
    kind: 'graph',
    inputs,
    outputs: resolved,
    after,
    checks: [...checks.values()],
    workspaceBytes: top - workspace,
  }
}

export function planKernelRun(run: Run, arena: ArenaLayout): KernelRunPlan {
  const [source, owner] = run.reads
  const write = run.writes[0]
  if (source === undefined || owner === undefined || write === undefined)
    throw internalError('sumSquares reads a region and an owner, and writes a scalar')
  const destination = arena.operand(write)
  if (destination.dtype !== 'f64') throw internalError('sumSquares writes float64')
  return {
    kind: 'kernel',
    source: arena.operand(source),
    owner: arena.operand(owner),
    destination,
    add: write.mode === 'add',
  }
}

/** Elements of a whole pack that no tensor covers, as ranges from the start of the operand. */
function paddingWithin(role: Role, operand: Operand, submesh: readonly MeshAxis[]): Region[] {
  const { pack, shard } = role.buffers[role.values[operand.value]!.buffer]!
  // Nothing but what the state was given and gradients of it is ever in a shard: its padding stays zero.
  if (pack === undefined || shard !== undefined) return []
  const { start, end } = operandElements(role, operand)
  const gaps: Region[] = []
  let reached = start
  for (const entry of pack.toSorted((a, b) => a.offset - b.offset)) {
    const { offset } = entry
    if (offset > reached) gaps.push({ start: reached - start, end: Math.min(offset, end) - start })
    reached = Math.max(reached, offset + localElements(entry, submesh))
    if (reached >= end) break
  }
  if (reached < end) gaps.push({ start: reached - start, end: end - start })
  return gaps.filter((gap) => gap.start < gap.end)
}

function resolveInputs(run: Run, task: GraphTask, arena: ArenaLayout): Place[] {
  const { graph } = task
  const inputs: (Place | undefined)[] = graph.inputs.map(() => undefined)
  run.reads.forEach((read: Operand, index) => {
    const port: ReadPort | undefined = task.reads[index]
    if (port === undefined) throw internalError(`task ${task.name} has no read port ${index}`)
    const place = arena.operand(read)
    const entries =
      port.kind === 'ids' ? [] : port.kind === 'pack' ? port.entries : [{ input: port.input, offset: 0 }]
    for (const { input, offset } of entries) {
      const { type } = graph.values[graph.inputs[input]!.value]!
      const view = viewOf(place, offset, type.dtype, type.shape)
      if (type.dtype !== place.dtype)
        throw internalError(`task ${task.name} reads ${place.dtype} as ${type.dtype}`)
      checkInside(place, view, task.name)
      inputs[input] = view
    }
  })
  return inputs.map((place, index) => {
    if (place === undefined)
      throw internalError(`task ${task.name} is not given its input ${graph.inputs[index]!.name}`)
    return place
  })
}

function portOutputs(port: WritePort): readonly { readonly output: number; readonly offset: number }[] {
  return port.kind === 'tensor' ? [{ output: port.output, offset: 0 }] : port.entries
}

function writtenOutputs(port: WritePort): number[] {
  const direct = portOutputs(port).map((entry) => entry.output)
  return port.kind === 'tensor' ? direct : [...direct, ...port.rows.map((entry) => entry.values)]
}

function checkInside(whole: Place, part: Place, task: string): void {
  if (part.pointer < whole.pointer || part.pointer + placeBytes(part) > whole.pointer + placeBytes(whole))
    throw internalError(`task ${task} reaches beyond its operand`)
}
