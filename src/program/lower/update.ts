import { internalError } from '../../base/index.ts'
import { canonicalHash, type FloatDType, type Graph, type TensorType } from '../../graph/index.ts'
import { buildClipFactor, type Optimizer } from '../../optimizers/index.ts'
import type { GraphTask, Group, KernelTask, Region } from '../types.ts'
import { graphDtype, names } from './compute.ts'
import type { Dag, DagOperand } from './dag.ts'
import { entryElements, type StageInfo } from './stages.ts'

const sumSquares: KernelTask = {
  kind: 'kernel',
  name: 'sumSquares',
  hash: 'sumSquares',
  kernel: 'sumSquares',
}

/**
 * Pass 4, first half: the global gradient norm. Every element counts once, at the data coordinate 0 of the lowest stage
 * that holds it; squares are added in float64, over all ranks in rank order, so that all clip by the same bits.
 */
export function lowerClip(dag: Dag, stages: readonly StageInfo[], maxNorm: number): Group[] {
  const several = stages.some(({ replicas }) => replicas > 1) || dag.actors > 1
  const scalar = { dtype: 'f64', shape: [] } as const
  const started = new Set<number>()
  for (const { stage, actor, pack } of stages) {
    dag.buffer(actor, 'owner', scalar, { constant: { isZero: ['data'] } })
    dag.buffer(actor, 'sumOfSquares', scalar, { sumOver: several ? 'all' : undefined })
    const owned = ownedRegions(pack.entries)
    if (owned.length === 0) throw internalError(`stage ${stage} holds no parameter of its own`)
    for (const region of owned) {
      dag.add({
        kind: 'run',
        actor,
        stream: 'compute',
        task: sumSquares,
        reads: [{ buffer: names.gradients(stage), region }, { buffer: 'owner' }],
        writes: [{ buffer: 'sumOfSquares', mode: started.has(actor) ? 'add' : 'set' }],
        latency: 0,
      })
      started.add(actor)
    }
  }
  const actors = [...started]
  if (several)
    dag.add({
      kind: 'collective',
      stream: 'reduce',
      operation: 'allReduce',
      reduce: 'sum',
      group: 'all',
      members: actors.map((actor) => ({ actor, operand: { buffer: 'sumOfSquares' } })),
      latency: 0,
    })
  for (const actor of actors) {
    const dtype = graphDtype(stages.find((info) => info.actor === actor)!.piece.graph)
    const graph = buildClipFactor({ maxNorm, dtype })
    const type = (name: string): TensorType =>
      graph.values[graph.outputs.find((output) => output.name === name)!.value]!.type
    for (const { name } of graph.outputs) dag.buffer(actor, name, type(name))
    dag.add({
      kind: 'run',
      actor,
      stream: 'compute',
      task: plainTask('clip', graph),
      reads: graph.inputs.map(({ name }) => ({ buffer: name })),
      writes: graph.outputs.map(({ name }) => ({ buffer: name, mode: 'set' })),
      latency: 0,
    })
  }
  dag.add({
    kind: 'move',
    actor: actors[0]!,
    stream: 'store',
    direction: 'out',
    port: 'gradientNorm',
    value: { buffer: 'gradientNorm' },
    latency: 0,
  })
  return several ? [{ name: 'all', axes: ['pipeline', 'data'] }] : []
}

/** Pass 4, second half: each stage's parameters and moments in place, decayed and undecayed regions apart. */
export function lowerUpdate(
  dag: Dag,
  stages: readonly StageInfo[],
  optimizer: Optimizer,
  dtype: FloatDType,
): void {
  for (const { stage, actor, pack } of stages) {
    const flat = { dtype, shape: [pack.elements] }
    const stateBuffer = (state: string): string => `${state}${stage}`
    for (const state of optimizer.states)
      dag.buffer(actor, stateBuffer(state.name), flat, {
        state: true,
        pack: pack.entries.map((entry) => ({ ...entry, name: state.checkpointName(entry.name) })),
      })
    const regions = [
      { start: 0, end: pack.decayEnd, decay: true },
      { start: pack.decayEnd, end: pack.elements, decay: false },
    ].filter(({ start, end }) => end > start)
    for (const { start, end, decay } of regions) {
      const graph = optimizer.build({ elements: end - start, dtype, decay })
      const region = regions.length > 1 ? { region: { start, end } } : {}
      const operand = (name: string, step: number): DagOperand => {
        const buffer = name === 'w' ? names.parameters(stage) : stateBuffer(name)
        return { buffer, step, ...region }
      }
      for (const input of graph.inputs)
        if (input.kind === 'scalar') dag.buffer(actor, input.name, graph.values[input.value]!.type)
      dag.add({
        kind: 'run',
        actor,
        stream: 'compute',
        task: plainTask(`U${stage}${decay ? '' : '.undecayed'}`, graph),
        reads: graph.inputs.map(({ name, kind }) => {
          if (kind === 'scalar') return { buffer: name }
          return kind === 'cotangent' ? { buffer: names.gradients(stage), ...region } : operand(name, 0)
        }),
        writes: graph.outputs.map(({ name }) => ({ ...operand(name, 1), mode: 'set' })),
        latency: 0,
      })
    }
  }
}

/** A task whose operands are its graph's inputs and outputs one by one. */
function plainTask(name: string, graph: Graph): GraphTask {
  return {
    kind: 'graph',
    name,
    hash: canonicalHash(graph),
    graph,
    reads: graph.inputs.map((_, input) => ({ kind: 'tensor', input })),
    writes: graph.outputs.map((_, output) => ({ kind: 'tensor', output })),
  }
}

function ownedRegions(entries: StageInfo['pack']['entries']): Region[] {
  const regions: { start: number; end: number }[] = []
  for (const entry of entries) {
    if (!entry.owned) continue
    const last = regions.at(-1)
    const end = entry.offset + entryElements(entry)
    if (last !== undefined && last.end === entry.offset) last.end = end
    else regions.push({ start: entry.offset, end })
  }
  return regions
}
