import { internalError } from '../../base/index.ts'
import { canonicalHash, elementCount, type Graph, type TensorType } from '../../graph/index.ts'
import { phaseLatency } from '../../schedule/index.ts'
import type { GraphTask, ReadPort, Region, RowsEntry, Work, WritePort } from '../types.ts'
import { names } from './names.ts'
import { parameterPlace } from './places.ts'
import type { StageInfo } from './stages.ts'

/** Stages that read a value another stage makes. */
export function consumers(stages: readonly StageInfo[], value: string): number[] {
  return stages.flatMap(({ stage, piece }) =>
    piece.receives.some((received) => received.name === value) ? [stage] : [],
  )
}

export interface StageOperand {
  readonly buffer: string
  /** For packs, the stage that keeps them. */
  readonly index: 'microbatch' | 'none' | { readonly parameters: number } | { readonly gradients: number }
  /** The part of a pack that is meant. */
  readonly region?: Region | undefined
  /** Undefined for packs, which are declared by the stage. */
  readonly type: TensorType | undefined
}

export interface StageTask {
  readonly task: GraphTask
  /** In units of the schedule's latencies. */
  readonly latency: number
  readonly reads: readonly StageOperand[]
  readonly writes: readonly StageOperand[]
}

/** The task of one phase of a stage, and which buffers its operands are. */
export function stageTask(
  info: StageInfo,
  phase: string,
  stages: readonly StageInfo[],
  method: Work['method'],
): StageTask {
  // Without a backward, a forward keeps nothing for it.
  const graph = method === 'infer' ? info.piece.graph : stageGraph(info, phase)
  const { reads, readPorts } = stageReads(graph, info, stages)
  const { writes, writePorts } = stageWrites(graph, info, reads, readPorts, stages)
  const task: GraphTask = {
    kind: 'graph',
    name: `${phase}${info.stage}`,
    hash: canonicalHash(graph),
    graph,
    reads: readPorts,
    writes: writePorts,
  }
  const latency = [...phase].reduce((sum, letter) => sum + phaseLatency(letter), 0)
  return { task, latency, reads, writes }
}

function stageGraph({ tasks }: StageInfo, phase: string): Graph {
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

function stageReads(
  graph: Graph,
  info: StageInfo,
  stages: readonly StageInfo[],
): { reads: StageOperand[]; readPorts: ReadPort[] } {
  const reads: StageOperand[] = []
  const readPorts: ReadPort[] = []
  /** By the stage that keeps them; of another stage's pack only the part that is lent. */
  const packed = new Map<string, PackRead>()
  graph.inputs.forEach((input, index) => {
    const type = graph.values[input.value]!.type
    if (input.kind === 'parameter') {
      const place = parameterPlace(stages, info, input.name)
      const { home } = place
      const region = home === info.stage ? undefined : place.region
      const key = `${home} ${region?.start}`
      const read = packed.get(key) ?? { home, region, entries: [] }
      packed.set(key, read)
      read.entries.push({ input: index, offset: place.offset - (region?.start ?? 0) })
      return
    }
    readPorts.push({ kind: 'tensor', input: index })
    if (input.kind === 'scalar') reads.push({ buffer: input.name, index: 'none', type })
    else reads.push({ buffer: bufferOf(input.name, info), index: 'microbatch', type })
  })
  for (const { home, region, entries } of packed.values()) {
    readPorts.push({ kind: 'pack', entries })
    reads.push({ buffer: '', index: { parameters: home }, region, type: undefined })
  }
  return { reads, readPorts }
}

/** What a task reads of the parameters that a stage keeps, as one operand; offsets count from its start. */
interface PackRead {
  readonly home: number
  readonly region: Region | undefined
  readonly entries: { readonly input: number; readonly offset: number }[]
}

/** What a task writes of the gradients that a stage keeps, as one operand; offsets count from its start. */
interface GradientPack {
  readonly home: number
  readonly region: Region | undefined
  readonly entries: { readonly output: number; readonly offset: number }[]
  readonly rows: RowsEntry[]
}

function stageWrites(
  graph: Graph,
  info: StageInfo,
  reads: StageOperand[],
  readPorts: ReadPort[],
  stages: readonly StageInfo[],
): { writes: StageOperand[]; writePorts: WritePort[] } {
  const outputIndex = new Map(graph.outputs.map((output, index) => [output.name, index]))
  const writes: StageOperand[] = []
  const writePorts: WritePort[] = []
  const packs = new Map<string, GradientPack>()
  const covered = new Set<string>()
  const used = new Set<number>()
  for (const gradient of info.tasks.gradients) {
    const { home, offset: inPack, shape, region } = parameterPlace(stages, info, gradient.parameter)
    const offset = inPack - (region?.start ?? 0)
    const key = `${home} ${region?.start}`
    const pack = packs.get(key) ?? { home, region, entries: [], rows: [] }
    if (gradient.kind === 'dense') {
      const output = outputIndex.get(gradient.output)
      if (output === undefined) continue
      packs.set(key, pack)
      pack.entries.push({ output, offset })
      covered.add(gradient.parameter)
      used.add(output)
      continue
    }
    const values = outputIndex.get(gradient.values)
    if (values === undefined) continue
    used.add(values)
    let ids: RowsEntry['ids']
    if ('input' in gradient.ids) {
      const name = gradient.ids.input
      let read = reads.findIndex((operand) => operand.buffer === name)
      if (read < 0) {
        readPorts.push({ kind: 'ids' })
        const source = info.piece.graph.inputs.find((input) => input.name === name)!
        const type = info.piece.graph.values[source.value]!.type
        read = reads.push({ buffer: name, index: 'microbatch', type }) - 1
      }
      ids = { read }
    } else {
      const output = outputIndex.get(gradient.ids.output)!
      used.add(output)
      ids = { output }
    }
    const rowElements = elementCount(shape.slice(1))
    packs.set(key, pack)
    pack.rows.push({
      values,
      ids,
      offset,
      rows: shape[0]!,
      rowElements,
      clears: !covered.has(gradient.parameter),
    })
    covered.add(gradient.parameter)
  }
  graph.outputs.forEach((output, index) => {
    if (used.has(index)) return
    const type = graph.values[output.value]!.type
    writePorts.push({ kind: 'tensor', output: index })
    if (output.name === 'loss') writes.push({ buffer: 'loss', index: 'none', type })
    else writes.push({ buffer: outputBuffer(output.name, info, stages), index: 'microbatch', type })
  })
  if (covered.size > 0) {
    const kept = info.pack.entries.map(({ name }) => name)
    const missing = [...kept, ...info.pack.borrowed.keys()].find((name) => !covered.has(name))
    if (missing !== undefined) throw internalError(`no gradient for ${missing}`)
  }
  for (const { home, region, entries, rows } of packs.values()) {
    writePorts.push({ kind: 'pack', entries, rows })
    writes.push({ buffer: '', index: { gradients: home }, region, type: undefined })
  }
  return { writes, writePorts }
}

/** What only this stage's tasks hand each other is its own; what passes between stages goes by the name it has there. */
function bufferOf(name: string, { stage, piece, tasks }: StageInfo): string {
  const isHeld = [tasks.residuals, tasks.held, tasks.exported].some((list) => list.includes(name))
  const isShared =
    piece.graph.outputs.some((output) => output.name === name) ||
    piece.receives.some((received) => name === `d.${received.name}`)
  return isHeld && !isShared ? names.local(name, stage) : name
}

function outputBuffer(name: string, info: StageInfo, stages: readonly StageInfo[]): string {
  if (name.startsWith('d.') && consumers(stages, name.slice(2)).length > 1)
    return names.cotangentFrom(name.slice(2), info.stage)
  return bufferOf(name, info)
}

export function graphDtype(graph: Graph): 'f32' | 'f64' {
  for (const { type } of graph.values) if (type.dtype === 'f32' || type.dtype === 'f64') return type.dtype
  throw internalError('a stage without floats')
}
