import { type FloatDType, GraphBuilder, type TensorType } from '../../graph/index.ts'
import { buildClipFactor, type Optimizer } from '../../optimizers/index.ts'
import type { GraphTask, Group, KernelTask, Region } from '../types.ts'
import type { Dag, DagOperand } from './dag.ts'
import { repeatedAxes } from './groups.ts'
import { names } from './names.ts'
import { type ParameterPack, type StageInfo, shardRegion } from './packs.ts'
import { addAllReduce } from './reductions.ts'
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
 * Pass 4, first half: the global gradient norm. Every element counts once: in the lowest stage that keeps it, at coordinate
 * 0 of the axes along which ranks have the same of it. Squares are added in float64, over all ranks in rank order, so that
 * all clip by the same bits.
 */
export function lowerClip(dag: Dag, stages: readonly StageInfo[], maxNorm: number): Group[] {
  const several = dag.actors > 1 || stages.some(({ mesh }) => mesh.some(({ size }) => size > 1))
  const started = new Set<number>()
  for (const info of stages) {
    const { actor } = info
    const owned = info.packs.flatMap((pack) => ownedRegions(info, pack))
    for (const { isZero } of owned)
      dag.buffer(actor, ownerName(info, isZero), scalar, { constant: { isZero } })
    dag.buffer(actor, 'sumOfSquares', scalar, { sumOver: several ? 'all' : undefined })
    for (const { home, region, isZero } of owned) {
      dag.add({
        kind: 'run',
        actor,
        stream: 'compute',
        task: sumSquares,
        reads: [{ buffer: names.gradients(home), region }, { buffer: ownerName(info, isZero) }],
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
    const dtype = graphDtype(stages.find((info) => info.actor === actor)!.forward)
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
  const axes = [...new Set(stages.flatMap(({ mesh }) => mesh.map(({ name }) => name)))]
  return several ? [{ name: 'all', axes: ['pipeline', ...axes] }] : []
}

/** Constants of an actor by what they are zero along: `owner` where that is the data axes that nothing is dealt out over. */
function ownerName({ dataAxes, packs: [first] }: StageInfo, isZero: readonly string[]): string {
  const undealt = dataAxes.map(({ name }) => name).filter((name) => first?.dealt.includes(name) === false)
  const isUsual = undealt.every((name) => isZero.includes(name))
  const named = isZero.filter((name) => !isUsual || !undealt.includes(name))
  return [isUsual ? 'owner' : 'owner.of', ...named].join('.')
}

/** Pass 4, second half: each stage's parameters and moments in place, decayed and undecayed regions apart. */
export function lowerUpdate(
  dag: Dag,
  stages: readonly StageInfo[],
  optimizer: Optimizer,
  dtype: FloatDType,
): void {
  for (const info of stages) for (const pack of info.packs) updatePack(dag, info, pack, optimizer, dtype)
}

function updatePack(
  dag: Dag,
  { stage, actor }: StageInfo,
  pack: ParameterPack,
  optimizer: Optimizer,
  dtype: FloatDType,
): void {
  const { home } = pack
  const shard = stateShard(pack)
  const elements = pack.elements / pack.shards
  const decayEnd = pack.decayEnd / pack.shards
  const flat = { dtype, shape: [elements] }
  const stateBuffer = (state: string): string => `${state}${home}`
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
      const buffer = name === 'w' ? names.parameters(home) : stateBuffer(name)
      return { buffer, step, ...region }
    }
    for (const input of graph.inputs)
      if (input.kind === 'scalar') dag.buffer(actor, input.name, graph.values[input.value]!.type)
    dag.add({
      kind: 'run',
      actor,
      stream: 'compute',
      task: plainTask(`U${home}${decay ? '' : '.undecayed'}`, graph),
      reads: graph.inputs.map(({ name, kind }) => {
        if (kind === 'scalar') return { buffer: name }
        return kind === 'cotangent' ? { buffer: names.gradients(home), ...region } : operand(name, 0)
      }),
      writes: graph.outputs.map(({ name }) => ({ ...operand(name, 1), mode: 'set' })),
      // Both regions are parts of the stage's one update.
      action: { phase: 'U', stage, microbatch: 0 },
      latency: 0,
    })
  }
}

/** What the stage counts of a pack, where and by whom. */
interface OwnedRegion {
  readonly home: string
  readonly region: Region
  readonly isZero: readonly string[]
}

function ownedRegions(info: StageInfo, pack: ParameterPack): OwnedRegion[] {
  const regions: { home: string; region: { start: number; end: number }; isZero: readonly string[] }[] = []
  for (const segment of pack.segments) {
    if (!segment.owned) continue
    const last = regions.at(-1)
    const { start, end } = shardRegion(pack, segment)
    const isZero = repeatedAxes(info, pack, segment.cut)
    if (last !== undefined && last.region.end === start && last.isZero.join() === isZero.join())
      last.region.end = end
    else regions.push({ home: pack.home, region: { start, end }, isZero })
  }
  return regions
}
