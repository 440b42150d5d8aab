import { bytesPerElement } from '../../graph/index.ts'
import type { Model } from '../../models/index.ts'
import { makeOptimizer } from '../../optimizers/index.ts'
import type { ResolvedPlan } from '../../plan/index.ts'
import type { Schedule } from '../../schedule/index.ts'
import { columnAccess } from '../columnAccesses.ts'
import type { Program, Stream } from '../types.ts'
import { lowerCompute } from './compute.ts'
import { Dag } from './dag.ts'
import { emitProgram } from './emit.ts'
import { stageLayouts } from './layouts.ts'
import { names } from './names.ts'
import { orderNodes } from './order.ts'
import { findPack, type StageInfo } from './packs.ts'
import { lowerReductions } from './reductions.ts'
import { lowerShards } from './shards.ts'
import { stageInfos } from './stages.ts'
import { declareStorage, wholeStorage, windowStorage } from './storage.ts'
import { lowerTransfers } from './transfers.ts'
import { lowerClip, lowerUpdate } from './update.ts'

export interface LowerOptions {
  /** `infer`: forwards only, for a validation loss. Default `gradient`. */
  readonly method?: 'gradient' | 'infer'
  /** Whether the step also gives the reduced gradients, before clipping (port `gradients`). */
  readonly gradients?: boolean
}

/** Streams of every program: what each is for, and what it occupies. */
const streams: readonly Stream[] = [
  { name: 'compute', resource: 'compute' },
  { name: 'forward', resource: 'network' },
  { name: 'backward', resource: 'network' },
  { name: 'reduce', resource: 'network' },
  { name: 'load', resource: 'host' },
  { name: 'store', resource: 'host' },
]

/** Those of every program, and those that its collectives need beside. */
function streamsOf(dag: Dag): Stream[] {
  const used = new Set(dag.nodes.map(({ stream }) => stream))
  for (const { name } of streams) used.delete(name)
  return [...streams, ...[...used].map((name): Stream => ({ name, resource: 'network' }))]
}

/** Messages under way on a channel: one in the making, one being read. */
const channelSlots = 2

/**
 * Compiles a plan: small passes over one DAG, then one order for all ranks, then slots and frees. The plan is resolved,
 * so nothing here is a user's mistake.
 */
export function lowerPlan(plan: ResolvedPlan, model: Model, options: LowerOptions = {}): Program {
  const layouts = plan.layout === null ? null : stageLayouts(plan, model, plan.layout)
  return lowerStages(plan, stageInfos(plan, model, layouts), options)
}

/** The same of stages that are there. */
export function lowerStages(
  plan: ResolvedPlan,
  stages: readonly StageInfo[],
  options: LowerOptions = {},
): Program {
  const method = options.method ?? 'gradient'
  const schedule = method === 'infer' ? forwardsOf(plan.schedule) : plan.schedule
  const dag = new Dag(schedule.actors.length)
  const { zero } = plan
  const gradients = method === 'gradient'
  const groups = stages.flatMap((info) => declareStorage(dag, stages, info, { dtype: plan.dtype, gradients }))
  const isDealt = (home: string): boolean => findPack(stages, home).pack.dealt.length > 0
  const storage = zero === null ? wholeStorage : windowStorage(schedule, zero, isDealt)
  groups.push(...lowerCompute(dag, stages, schedule, storage, method))
  lowerTransfers(dag, stages, plan.microbatches, method)
  if (zero !== null) groups.push(...lowerShards(dag, stages, zero, { gradients }))
  const elementBytes = bytesPerElement[plan.dtype]
  groups.push(...lowerReductions(dag, stages, { method, bucketBytes: plan.bucketBytes, elementBytes }))
  if (method === 'gradient') {
    if (options.gradients === true) lowerGradientPorts(dag, stages)
    if (plan.clip !== null) groups.push(...lowerClip(dag, stages, plan.clip))
    lowerUpdate(dag, stages, makeOptimizer(plan.optimizer.name, plan.optimizer.settings), plan.dtype)
  }
  lowerPorts(dag)
  const actors = dag.buffers.map((_, actor) => stages.find((info) => info.actor === actor)!)
  return emitProgram(dag, orderNodes(dag), {
    replicas: actors.map(({ replicas }) => replicas),
    meshes: actors.map(({ mesh }) => mesh),
    streams: streamsOf(dag),
    groups: [...new Map(groups.map((group) => [group.name, group])).values()],
    channelSlots,
    work: { method, stages: stages.length, microbatches: plan.microbatches },
  })
}

function forwardsOf(schedule: Schedule): Schedule {
  const actors = schedule.actors.map((entries) =>
    entries.flatMap((entry) => ('pair' in entry ? entry.pair : [entry])).filter(({ phase }) => phase === 'F'),
  )
  return { ...schedule, actors }
}

/** Reduced gradients leave before clipping. */
function lowerGradientPorts(dag: Dag, stages: readonly StageInfo[]): void {
  for (const { actor, packs } of stages)
    for (const { home } of packs)
      dag.add({
        kind: 'move',
        actor,
        stream: 'store',
        direction: 'out',
        port: 'gradients',
        value: { buffer: names.gradients(home) },
        latency: 0,
      })
}

/** Last: whatever is read and made by nobody comes through a port of its name (the batch, scalars of the step). */
function lowerPorts(dag: Dag): void {
  const { accesses } = dag
  const { values, value: numbers, kind, actor: actors } = accesses
  const made = new Uint8Array(values)
  for (let access = 0; access < numbers.length; access++)
    if (kind[access] === columnAccess.write) made[numbers[access]!] = 1
  for (let number = 0; number < values; number++) {
    if (made[number] === 1) continue
    const actor = actors[number]!
    const { buffer: port, microbatch } = accesses.valueOf(number)
    const buffer = dag.buffers[actor]!.get(port)
    if (buffer?.state === true || buffer?.constant !== undefined) continue
    dag.add({
      kind: 'move',
      actor,
      stream: 'load',
      direction: 'in',
      port,
      value: { buffer: port, ...(microbatch === undefined ? {} : { microbatch }) },
      latency: 0,
    })
  }
}
