import { internalError } from '../../base/index.ts'
import { canonicalHash, elementCount, type Graph, type TensorType } from '../../graph/index.ts'
import type { Action, Schedule } from '../../schedule/index.ts'
import { phaseLatency } from '../../schedule/index.ts'
import type { GraphTask, ReadPort, RowsEntry, Work, WritePort } from '../types.ts'
import type { Dag, DagOperand, DagValue, DagWrite } from './dag.ts'
import { replicaGroup, sumGroup } from './groups.ts'
import type { StageInfo } from './stages.ts'

/** Buffer names: what the passes agree on. */
export const names = {
  parameters: (stage: number): string => `w${stage}`,
  gradients: (stage: number): string => `g${stage}`,
  /** A residual or a value between I and W: `r3` of stage 1 is `r1.3`. */
  local: (name: string, stage: number): string => `${name[0]}${stage}.${name.slice(1)}`,
  /** The cotangent of `value` that one of several consumers sends. */
  cotangentFrom: (value: string, consumer: number): string => `d.${value}@${consumer}`,
}

/** Stages that read a value another stage makes. */
export function consumers(stages: readonly StageInfo[], value: string): number[] {
  return stages.flatMap(({ stage, piece }) =>
    piece.receives.some((received) => received.name === value) ? [stage] : [],
  )
}

/** Pass 1: a run for each action of the schedule, in the order of its actor's list; an F and the B that follows are one. */
export function lowerCompute(
  dag: Dag,
  stages: readonly StageInfo[],
  schedule: Schedule,
  method: Work['method'],
): void {
  const makers = stages.map((info) => new StageMaker(dag, stages, info, method))
  schedule.actors.forEach((entries) => {
    // Updates follow the last micro-batch whether the schedule names them or not (lowerUpdate).
    const actions = entries
      .flatMap((entry) => ('pair' in entry ? entry.pair : [entry]))
      .filter(({ phase }) => phase !== 'U')
    let previous: number | undefined
    for (let index = 0; index < actions.length; index++) {
      const action = actions[index]!
      const next = actions[index + 1]
      const fused =
        action.phase === 'F' &&
        next?.phase === 'B' &&
        next.stage === action.stage &&
        next.microbatch === action.microbatch &&
        stages[action.stage]?.piece.sends.length === 0
      if (fused) index++
      const maker = makers[action.stage]
      if (maker === undefined) throw internalError(`no stage ${action.stage}`)
      previous = maker.run(fused ? { ...action, phase: 'FB' } : action, previous)
    }
  })
}

/** Adds runs of one stage, making each of its tasks once. */
class StageMaker {
  private readonly tasks = new Map<string, StageTask>()
  private readonly started = new Set<string>()
  private readonly dag: Dag
  private readonly stages: readonly StageInfo[]
  private readonly info: StageInfo
  private readonly method: Work['method']

  constructor(dag: Dag, stages: readonly StageInfo[], info: StageInfo, method: Work['method']) {
    this.dag = dag
    this.stages = stages
    this.info = info
    this.method = method
    const { actor, pack, stage, piece } = info
    const dtype = graphDtype(piece.graph)
    const flat = { dtype, shape: [pack.elements] }
    dag.buffer(actor, names.parameters(stage), flat, { state: true, pack: pack.entries })
    if (method === 'gradient')
      dag.buffer(actor, names.gradients(stage), flat, {
        pack: pack.entries.map((entry) => {
          const group = sumGroup(stages, info, entry.name)
          return group === undefined ? entry : { ...entry, sumOver: group.name }
        }),
      })
  }

  run(action: Action, after: number | undefined): number {
    let made = this.tasks.get(action.phase)
    if (made === undefined) {
      made = stageTask(this.info, action.phase, this.stages, this.method)
      for (const { buffer, type } of [...made.reads, ...made.writes])
        if (type !== undefined)
          this.dag.buffer(this.info.actor, buffer, type, {
            sumOver: buffer === 'loss' ? replicaGroup(this.info)?.name : undefined,
          })
      this.tasks.set(action.phase, made)
    }
    const at = ({ buffer, index }: StageOperand): DagValue => {
      if (index === 'microbatch') return { buffer, microbatch: action.microbatch }
      return index === 'step' ? { buffer, step: 0 } : { buffer }
    }
    const reads: DagOperand[] = made.reads.map(at)
    const writes = made.writes.map((write): DagWrite => {
      const first = write.index !== 'microbatch' && !this.started.has(write.buffer)
      if (write.index === 'microbatch') return { ...at(write), mode: 'set' }
      this.started.add(write.buffer)
      return { ...at(write), mode: first ? 'set' : 'add' }
    })
    const latency = [...action.phase].reduce((sum, letter) => sum + phaseLatency(letter), 0)
    return this.dag.add({
      kind: 'run',
      actor: this.info.actor,
      stream: 'compute',
      task: made.task,
      reads,
      writes,
      action,
      latency,
      ...(after === undefined ? {} : { after }),
    })
  }
}

interface StageOperand {
  readonly buffer: string
  readonly index: 'microbatch' | 'step' | 'none'
  /** Undefined for packs, which are declared by the stage. */
  readonly type: TensorType | undefined
}

interface StageTask {
  readonly task: GraphTask
  readonly reads: readonly StageOperand[]
  readonly writes: readonly StageOperand[]
}

/** The task of one phase of a stage, and which buffers its operands are. */
function stageTask(
  info: StageInfo,
  phase: string,
  stages: readonly StageInfo[],
  method: Work['method'],
): StageTask {
  // Without a backward, a forward keeps nothing for it.
  const graph = method === 'infer' ? info.piece.graph : stageGraph(info, phase)
  const { reads, readPorts } = stageReads(graph, info)
  const { writes, writePorts } = stageWrites(graph, info, reads, readPorts, stages)
  const task: GraphTask = {
    kind: 'graph',
    name: `${phase}${info.stage}`,
    hash: canonicalHash(graph),
    graph,
    reads: readPorts,
    writes: writePorts,
  }
  return { task, reads, writes }
}

function stageGraph({ tasks }: StageInfo, phase: string): Graph {
  switch (phase) {
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

function stageReads(graph: Graph, info: StageInfo): { reads: StageOperand[]; readPorts: ReadPort[] } {
  const reads: StageOperand[] = []
  const readPorts: ReadPort[] = []
  const packed: { input: number; offset: number }[] = []
  graph.inputs.forEach((input, index) => {
    const type = graph.values[input.value]!.type
    if (input.kind === 'parameter') {
      const entry = info.pack.entries.find((candidate) => candidate.name === input.name)
      if (entry === undefined) throw internalError(`parameter ${input.name} is not in its stage's pack`)
      packed.push({ input: index, offset: entry.offset })
      return
    }
    readPorts.push({ kind: 'tensor', input: index })
    if (input.kind === 'scalar') reads.push({ buffer: input.name, index: 'none', type })
    else reads.push({ buffer: bufferOf(input.name, info), index: 'microbatch', type })
  })
  if (packed.length > 0) {
    readPorts.push({ kind: 'pack', entries: packed })
    reads.push({ buffer: names.parameters(info.stage), index: 'step', type: undefined })
  }
  return { reads, readPorts }
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
  const entries: { output: number; offset: number }[] = []
  const rows: RowsEntry[] = []
  const covered = new Set<string>()
  const used = new Set<number>()
  for (const gradient of info.tasks.gradients) {
    const entry = info.pack.entries.find((candidate) => candidate.name === gradient.parameter)!
    if (gradient.kind === 'dense') {
      const output = outputIndex.get(gradient.output)
      if (output === undefined) continue
      entries.push({ output, offset: entry.offset })
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
    const rowElements = elementCount(entry.shape.slice(1))
    rows.push({
      values,
      ids,
      offset: entry.offset,
      rows: entry.shape[0]!,
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
    const missing = info.pack.entries.find((entry) => !covered.has(entry.name))
    if (missing !== undefined) throw internalError(`no gradient for ${missing.name}`)
    writePorts.push({ kind: 'pack', entries, rows })
    writes.push({ buffer: names.gradients(info.stage), index: 'none', type: undefined })
  }
  return { writes, writePorts }
}

/** What only this stage's tasks hand each other is its own; what passes between stages goes by the name it has there. */
function bufferOf(name: string, { stage, piece, tasks }: StageInfo): string {
  const isHeld = tasks.residuals.includes(name) || tasks.exported.includes(name)
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
