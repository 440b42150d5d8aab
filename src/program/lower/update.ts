import { type FloatDType, GraphBuilder, type TensorType } from '../../graph/index.ts'
import { buildClipFactor, type Optimizer } from '../../optimizers/index.ts'
import type { ResolvedZero } from '../../plan/index.ts'
import type { GraphTask, Group, KernelTask, Region } from '../types.ts'
import type { Dag, DagOperand } from './dag.ts'
import { undealtAxes } from './groups.ts'
import { names } from './names.ts'
import { addAllReduce } from './reductions.ts'
import { type ParameterPack, type StageInfo, shardRegion } from './stages.ts'
import { graphDtype } from './stageTask.ts'
import { stateShard } from './storage.ts'
import { plainTask } from './tasks.ts'

const sumSquares: KernelTask = {
  kind: 'kernel',
  name: 'sumSquares',
  hash: 'sumSquares',
  kernel: 'sumSquares',
}

const scalar = { dtype: 'f64', shape: [] } as const

function noSquares(): GraphTask {
  const builder = new GraphBuilder()
  builder.output('sumOfSquares', builder.one('fill', [], { ...scalar, value: 0 }))
  return plainTask('noSquares', builder.build())
}

/**
 * Pass 4, first half: the global gradient norm. Every element counts once, in the lowest stage that keeps it, at
 * coordinate 0 of the data axes that do not share it out; squares are added in float64, over all ranks in rank order, so that all clip by the same bits.
 */
export function lowerClip(
  dag: Dag,
  stages: readonly StageInfo[],
  maxNorm: number,
  zero: ResolvedZero | null,
): Group[] {
  const several = stages.some(({ replicas }) => replicas > 1) || dag.actors > 1
  const started = new Set<number>()
  for (const info of stages) {
    const { stage, actor, pack, axes } = info
    const owned = ownedRegions(pack)
    if (owned.length > 0)
      dag.buffer(actor, 'owner', scalar, { constant: { isZero: undealtAxes(axes, zero) } })
    dag.buffer(actor, 'sumOfSquares', scalar, { sumOver: several ? 'all' : undefined })
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
  const actors = [...new Set(stages.map(({ actor }) => actor))]
  // Who owns nothing adds nothing, but clips by the same sum as all.
  for (const actor of actors)
    if (!started.has(actor))
      dag.add({
        kind: 'run',
        actor,
        stream: 'compute',
        task: noSquares(),
        reads: [],
        writes: [{ buffer: 'sumOfSquares', mode: 'set' }],
        latency: 0,
      })
  if (several) {
    const members = actors.map((actor) => ({ actor, parts: [{ source: { buffer: 'sumOfSquares' } }] }))
    addAllReduce(dag, 'all', members)
  }
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
  const axes = stages[0]!.axes.map(({ name }) => name)
  return several ? [{ name: 'all', axes: ['pipeline', ...axes] }] : []
}

/** Pass 4, second half: each stage's parameters and moments in place, decayed and undecayed regions apart. */
export function lowerUpdate(
  dag: Dag,
  stages: readonly StageInfo[],
  optimizer: Optimizer,
  dtype: FloatDType,
  zero: ResolvedZero | null,
): void {
  for (const info of stages) {
    const { stage, actor, pack } = info
    const shard = stateShard(info, zero)
    const elements = pack.elements / pack.shards
    const decayEnd = pack.decayEnd / pack.shards
    const flat = { dtype, shape: [elements] }
    const stateBuffer = (state: string): string => `${state}${stage}`
    for (const state of optimizer.states)
      dag.buffer(actor, stateBuffer(state.name), flat, {
        state: true,
        pack: pack.entries.map((entry) => ({ ...entry, name: state.checkpointName(entry.name) })),
        shard,
      })
    const regions = [
      { start: 0, end: decayEnd, decay: true },
      { start: decayEnd, end: elements, decay: false },
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
        // Both regions are parts of the stage's one update.
        action: { phase: 'U', stage, microbatch: 0 },
        latency: 0,
      })
    }
  }
}

function ownedRegions(pack: ParameterPack): Region[] {
  const regions: { start: number; end: number }[] = []
  for (const segment of pack.segments) {
    if (!segment.owned) continue
    const last = regions.at(-1)
    const { start, end } = shardRegion(pack, segment)
    if (last !== undefined && last.end === start) last.end = end
    else regions.push({ start, end })
  }
  return regions
}
