import { internalError } from '../../base/index.ts'
import { canonicalHash, elementCount, type Graph, type TensorType } from '../../graph/index.ts'
import { phaseLatency } from '../../schedule/index.ts'
import type {
  CollectiveOperation,
  Constant,
  GraphTask,
  Group,
  ReadPort,
  Region,
  RowsEntry,
  Work,
  WritePort,
} from '../types.ts'
import { type CutCollective, type CutGraph, type CutPlace, cutGraph } from './cutGraph.ts'
import { communicates } from './flow.ts'
import { groupAlong } from './groups.ts'
import { names } from './names.ts'
import type { StageInfo } from './packs.ts'
import { type GradientWriters, isPadded, parameterPlace, parameterSums } from './places.ts'

/** Stages that read a value another stage makes. */
export function consumers(stages: readonly StageInfo[], value: string): number[] {
  return stages.flatMap(({ stage, piece }) =>
    piece.receives.some((received) => received.name === value) ? [stage] : [],
  )
}

export interface StageOperand {
  readonly buffer: string
  /** For packs, the pack that is meant. */
  readonly index: 'microbatch' | 'none' | { readonly parameters: string } | { readonly gradients: string }
  /** The part of a pack that is meant. */
  readonly region?: Region | undefined
  /** Undefined for packs, which are declared by the stage. */
  readonly type: TensorType | undefined
  /** Each rank has it by its place. */
  readonly constant?: Constant
  /** Ranks that hold terms of it. */
  readonly terms?: Group | undefined
}

/** One thing that an action of a stage does, with the buffers of its operands. */
export type StageStep = StageRun | StageCollective

export interface StageRun {
  readonly kind: 'run'
  readonly task: GraphTask
  /** In units of the schedule's latencies. */
  readonly latency: number
  readonly reads: readonly StageOperand[]
  readonly writes: readonly StageOperand[]
}

export interface StageCollective {
  readonly kind: 'collective'
  readonly stream: string
  readonly operation: CollectiveOperation
  readonly reduce: 'sum' | 'max' | 'mean' | undefined
  readonly group: Group
  readonly root: number | undefined
  readonly shift: number | undefined
  readonly parts: readonly { readonly source: StageOperand; readonly result: StageOperand }[]
}

/** The phase of a stage as a graph. */
export function stageGraph({ tasks, forward }: StageInfo, phase: string, method: Work['method']): Graph {
  // Without a backward, a forward keeps nothing for it.
  if (method === 'infer') return forward
  switch (phase) {
    case 'R':
      if (tasks.R === undefined) throw internalError('nothing is recomputed')
      return tasks.R
    case 'F':
    case 'B':
    case 'I':
    case 'W':
    case 'FB':
      return tasks[phase]
    default:
      throw internalError(`no task for phase ${phase}`)
  }
}

/** The phase cut at its communication; undefined where it has none. */
export function cutPhase(
  stages: readonly StageInfo[],
  info: StageInfo,
  graph: Graph,
  firstCrossing: number,
): CutGraph | undefined {
  if (!communicates(graph)) return undefined
  const { gradients } = info.tasks
  const idsOf = new Map<string, string>()
  const dense = new Map<string, string>()
  const accumulated = new Set(['loss'])
  for (const gradient of gradients)
    if (gradient.kind === 'dense') {
      accumulated.add(gradient.output)
      dense.set(gradient.output, gradient.parameter)
    } else {
      accumulated.add(gradient.values)
      if ('output' in gradient.ids) idsOf.set(gradient.ids.output, gradient.values)
    }
  return cutGraph(graph, {
    idsOf,
    firstCrossing,
    isAccumulated: (name) => accumulated.has(name),
    isReadable: (name) => !accumulated.has(name) && bufferName(name, info, stages) === bufferOf(name, info),
    sumsOf: (name) => {
      const parameter = dense.get(name)
      if (parameter === undefined) return []
      const { tied, sums } = parameterSums(stages, info, parameter)
      return tied === undefined ? sums : undefined
    },
    takesCollective: (name) => {
      const parameter = dense.get(name)
      // A collective sets the tensor, and not the padding behind it.
      return parameter === undefined ? !accumulated.has(name) : !isPadded(stages, info, parameter)
    },
  })
}

/** What an action of a stage does, and which buffers the operands are: one run, or several with collectives between. */
export function stageSteps(
  info: StageInfo,
  phase: string,
  stages: readonly StageInfo[],
  method: Work['method'],
  { cut, writers }: { readonly cut: CutGraph | undefined; readonly writers: GradientWriters },
): StageStep[] {
  const latency = [...phase].reduce((sum, letter) => sum + phaseLatency(letter), 0)
  const name = `${phase}${info.stage}`
  const graph = stageGraph(info, phase, method)
  const operands = new PhaseOperands(info, stages, graph, writers, cut)
  if (cut === undefined) return [stageRun(name, graph, latency, operands)]
  const runs = cut.steps.flatMap((step) => (step.kind === 'run' ? [step] : []))
  const flops = runs.reduce((sum, run) => sum + run.flops, 0)
  let number = 0
  return cut.steps.map((step) => {
    if (step.kind === 'collective') return stageCollective(info, step, operands)
    const share = flops > 0 ? step.flops / flops : 1 / runs.length
    return stageRun(`${name}.${number++}`, step.graph, latency * share, operands)
  })
}

function stageRun(name: string, graph: Graph, latency: number, operands: PhaseOperands): StageRun {
  const { reads, readPorts } = stageReads(graph, operands)
  const { writes, writePorts } = stageWrites(graph, operands, reads, readPorts)
  const hash = canonicalHash(graph)
  const task: GraphTask = { kind: 'graph', name, hash, graph, reads: readPorts, writes: writePorts }
  return { kind: 'run', task, latency, reads, writes }
}

function stageCollective(
  info: StageInfo,
  { operation, reduce, axes, root, shift, parts }: CutCollective,
  operands: PhaseOperands,
): StageCollective {
  const group = groupAlong(info, axes)
  if (group === undefined) throw internalError(`nobody to communicate with along ${axes.join(', ')}`)
  return {
    kind: 'collective',
    stream: axes[0]!.split('.')[0]!,
    operation,
    reduce,
    group,
    root,
    shift,
    parts: parts.map(({ source, result }) => ({
      source: operands.at(source),
      result: operands.at(result),
    })),
  }
}

/** The buffers that inputs and outputs of a phase are. */
class PhaseOperands {
  readonly info: StageInfo
  readonly stages: readonly StageInfo[]
  readonly graph: Graph
  readonly writers: GradientWriters
  readonly cut: CutGraph | undefined

  constructor(
    info: StageInfo,
    stages: readonly StageInfo[],
    graph: Graph,
    writers: GradientWriters,
    cut: CutGraph | undefined,
  ) {
    this.info = info
    this.stages = stages
    this.graph = graph
    this.writers = writers
    this.cut = cut
  }

  place(parameter: string): ReturnType<typeof parameterPlace> {
    return parameterPlace(this.stages, this.info, parameter, this.writers)
  }

  input(name: string, kind: string, type: TensorType): StageOperand {
    const constant = this.info.constants.get(name)
    if (constant !== undefined) return { buffer: name, index: 'none', type, constant }
    if (kind === 'scalar') return { buffer: name, index: 'none', type }
    const made = this.cut && this.graph.outputs.find((output) => output.name === name)
    // A piece may see what another made in other dims: the buffer has those that the phase gives it.
    const own = made === undefined ? type : this.graph.values[made.value]!.type
    return this.crossing(name) ?? { buffer: bufferOf(name, this.info), index: 'microbatch', type: own }
  }

  output(name: string, type: TensorType): StageOperand {
    if (name === 'loss') return { buffer: 'loss', index: 'none', type }
    const crossing = this.crossing(name)
    if (crossing !== undefined) return crossing
    return { buffer: bufferName(name, this.info, this.stages), index: 'microbatch', type }
  }

  /** Source or result of a collective. */
  at({ kind, name }: CutPlace): StageOperand {
    const { forward, tasks } = this.info
    if (kind === 'crossing') return this.crossing(name)!
    const graphs = [tasks.F, tasks.B, tasks.I, tasks.W, tasks.FB, forward, ...(tasks.R ? [tasks.R] : [])]
    for (const graph of graphs) {
      const found = (kind === 'input' ? graph.inputs : graph.outputs).find((one) => one.name === name)
      if (found === undefined) continue
      const { type } = graph.values[found.value]!
      if (kind === 'input' && 'kind' in found && found.kind === 'parameter') {
        const { home, offset } = this.place(name)
        const region = { start: offset, end: offset + elementCount(type.shape) }
        return { buffer: '', index: { parameters: home }, region, type: undefined }
      }
      if (kind === 'input' && 'kind' in found) return this.input(name, String(found.kind), type)
      const gradient = tasks.gradients.find((one) => one.kind === 'dense' && one.output === name)
      if (gradient === undefined) return this.output(name, type)
      const { home, offset } = this.place(gradient.parameter)
      const region = { start: offset, end: offset + elementCount(type.shape) }
      return { buffer: '', index: { gradients: home }, region, type: undefined }
    }
    throw internalError(`no ${kind} ${name} of stage ${this.info.stage}`)
  }

  private crossing(name: string): StageOperand | undefined {
    const found = this.cut?.crossings.get(name)
    if (found === undefined) return undefined
    return {
      buffer: names.local(name, this.info.stage),
      index: 'microbatch',
      type: found.type,
      terms: groupAlong(this.info, found.terms),
    }
  }
}

function stageReads(graph: Graph, operands: PhaseOperands): { reads: StageOperand[]; readPorts: ReadPort[] } {
  const reads: StageOperand[] = []
  const readPorts: ReadPort[] = []
  /** By pack; of another stage's pack only the part that is lent. */
  const packed = new Map<string, PackRead>()
  graph.inputs.forEach((input, index) => {
    const type = graph.values[input.value]!.type
    if (input.kind === 'parameter') {
      const place = operands.place(input.name)
      const { home } = place
      const region = operands.info.borrowed.has(input.name) ? place.region : undefined
      const key = `${home} ${region?.start}`
      const read = packed.get(key) ?? { home, region, entries: [] }
      packed.set(key, read)
      read.entries.push({ input: index, offset: place.offset - (region?.start ?? 0) })
      return
    }
    readPorts.push({ kind: 'tensor', input: index })
    reads.push(operands.input(input.name, input.kind, type))
  })
  for (const { home, region, entries } of packed.values()) {
    readPorts.push({ kind: 'pack', entries })
    reads.push({ buffer: '', index: { parameters: home }, region, type: undefined })
  }
  return { reads, readPorts }
}

/** What a task reads of the parameters that a stage keeps, as one operand; offsets count from its start. */
interface PackRead {
  readonly home: string
  readonly region: Region | undefined
  readonly entries: { readonly input: number; readonly offset: number }[]
}

/** What a task writes of the gradients that a stage keeps, as one operand; offsets count from its start. */
interface GradientPack {
  readonly home: string
  readonly region: Region | undefined
  readonly entries: { readonly output: number; readonly offset: number }[]
  readonly rows: RowsEntry[]
}

function stageWrites(
  graph: Graph,
  operands: PhaseOperands,
  reads: StageOperand[],
  readPorts: ReadPort[],
): { writes: StageOperand[]; writePorts: WritePort[] } {
  const { info, cut } = operands
  const outputIndex = new Map(graph.outputs.map((output, index) => [output.name, index]))
  const writes: StageOperand[] = []
  const writePorts: WritePort[] = []
  const packs = new Map<string, GradientPack>()
  const covered = new Set<string>()
  const used = new Set<number>()
  const readIds = (operand: StageOperand): number => {
    const read = reads.findIndex(({ buffer }) => buffer === operand.buffer)
    if (read >= 0) return read
    readPorts.push({ kind: 'ids' })
    return reads.push(operand) - 1
  }
  for (const gradient of info.tasks.gradients) {
    const output = outputIndex.get(gradient.kind === 'dense' ? gradient.output : gradient.values)
    if (output === undefined) continue
    const { home, offset: inPack, shape, region } = operands.place(gradient.parameter)
    const offset = inPack - (region?.start ?? 0)
    const key = `${home} ${region?.start}`
    const pack = packs.get(key) ?? { home, region, entries: [], rows: [] }
    packs.set(key, pack)
    used.add(output)
    if (gradient.kind === 'dense') pack.entries.push({ output, offset })
    else {
      let ids: RowsEntry['ids']
      if ('input' in gradient.ids)
        ids = { read: readIds(operands.at({ kind: 'input', name: gradient.ids.input })) }
      else {
        const made = outputIndex.get(gradient.ids.output)
        const place = cut?.idsAt.get(gradient.ids.output)
        if (made !== undefined) {
          used.add(made)
          ids = { output: made }
        } else if (place !== undefined) ids = { read: readIds(operands.at(place)) }
        else throw internalError(`no ids for ${gradient.values}`)
      }
      pack.rows.push({
        values: output,
        ids,
        offset,
        rows: shape[0]!,
        rowElements: elementCount(shape.slice(1)),
        clears: !covered.has(gradient.parameter),
      })
    }
    covered.add(gradient.parameter)
  }
  graph.outputs.forEach((output, index) => {
    if (used.has(index)) return
    const type = graph.values[output.value]!.type
    writePorts.push({ kind: 'tensor', output: index })
    writes.push(operands.output(output.name, type))
  })
  if (covered.size > 0 && cut === undefined) {
    const kept = info.packs.flatMap(({ entries }) => entries.map(({ name }) => name))
    const missing = [...kept, ...info.borrowed.keys()].find((name) => !covered.has(name))
    if (missing !== undefined) throw internalError(`no gradient for ${missing}`)
  }
  for (const { home, region, entries, rows } of packs.values()) {
    writePorts.push({ kind: 'pack', entries, rows })
    writes.push({ buffer: '', index: { gradients: home }, region, type: undefined })
  }
  return { writes, writePorts }
}

/** What only this stage's tasks hand each other is its own; what passes between stages goes by the name it has there. */
function bufferOf(name: string, { stage, piece, forward, tasks }: StageInfo): string {
  const isHeld = [tasks.residuals, tasks.held, tasks.exported].some((list) => list.includes(name))
  const isShared =
    forward.outputs.some((output) => output.name === name) ||
    piece.receives.some((received) => name === `d.${received.name}`)
  return isHeld && !isShared ? names.local(name, stage) : name
}

function bufferName(name: string, info: StageInfo, stages: readonly StageInfo[]): string {
  if (name.startsWith('d.') && consumers(stages, name.slice(2)).length > 1)
    return names.cotangentFrom(name.slice(2), info.stage)
  return bufferOf(name, info)
}

export function graphDtype(graph: Graph): 'f32' | 'f64' {
  for (const { type } of graph.values) if (type.dtype === 'f32' || type.dtype === 'f64') return type.dtype
  throw internalError('a stage without floats')
}
