import { internalError, MeshwrightError } from '../base/index.ts'
import { scheduleLimits } from './actions.ts'
import { stageFlow } from './dependences.ts'
import type { StageGraph } from './types.ts'

/**
 * Refuses a stage graph that is no graph of stages: sizes out of range, edges to nowhere, cycles.
 *
 * @throws MeshwrightError `SCHEDULE_STAGES`
 */
export function checkStageGraph(graph: StageGraph): void {
  const { stages, microbatches, placement, edges } = graph
  const fail = (message: string, hint?: string): never => {
    throw new MeshwrightError('SCHEDULE_STAGES', message, hint === undefined ? {} : { hint })
  }
  const size = (what: string, value: number, maximum: number): void => {
    if (!Number.isInteger(value) || value < 1 || value > maximum)
      fail(`${what} is ${value}`, `it is a whole number from 1 to ${maximum}`)
  }
  size('the number of stages', stages, scheduleLimits.stages)
  size('the number of micro-batches', microbatches, scheduleLimits.microbatches)
  if (stages * microbatches * 2 > scheduleLimits.actions)
    fail(
      `${stages} stages x ${microbatches} micro-batches make more than ${scheduleLimits.actions} actions`,
      `with ${stages} stages there are at most ${Math.floor(scheduleLimits.actions / (2 * stages))} micro-batches`,
    )
  if (placement.length !== stages)
    fail(`${placement.length} actors are given for ${stages} stages`, 'give the actor of each stage')
  for (const [stage, actor] of placement.entries())
    if (!Number.isInteger(actor) || actor < 0 || actor >= scheduleLimits.actors)
      fail(
        `stage ${stage} is placed on actor ${actor}`,
        `actors are numbered 0 to ${scheduleLimits.actors - 1}`,
      )
  for (const [from, to] of edges)
    if (
      !(
        Number.isInteger(from) &&
        Number.isInteger(to) &&
        from >= 0 &&
        to >= 0 &&
        from < stages &&
        to < stages
      )
    )
      fail(`an edge goes from stage ${from} to stage ${to}`, `stages are numbered 0 to ${stages - 1}`)
  if (forwardOrder(graph).length < stages)
    fail('the data flow between stages has a cycle', 'leave out an edge that leads back')
}

/** Stages in an order in which each comes after all that feed it, lower numbers first; stages on a cycle are left out. */
export function forwardOrder(graph: StageGraph): number[] {
  const flow = stageFlow(graph.stages, graph.edges)
  const open = flow.upstream.map((from) => from.length)
  const ready = open.flatMap((count, stage) => (count === 0 ? [stage] : []))
  const order: number[] = []
  while (ready.length > 0) {
    const lowest = ready.indexOf(Math.min(...ready))
    const stage = ready.splice(lowest, 1)[0]!
    order.push(stage)
    for (const next of flow.downstream[stage]!) if (--open[next]! === 0) ready.push(next)
  }
  return order
}

/** Longest way from each stage to one that feeds nothing, in edges: in a chain of S, stage i has S - 1 - i. */
export function distanceToEnd(graph: StageGraph): number[] {
  const flow = stageFlow(graph.stages, graph.edges)
  const distance = Array.from({ length: graph.stages }, () => 0)
  for (const stage of forwardOrder(graph).reverse())
    for (const next of flow.downstream[stage]!) {
      const beyond = distance[next]
      if (beyond === undefined) throw internalError(`no stage ${next}`)
      distance[stage] = Math.max(distance[stage]!, beyond + 1)
    }
  return distance
}

/** The first actor that has several stages, if one has. */
export function sharedActor(graph: StageGraph): number | undefined {
  const seen = new Set<number>()
  for (const actor of graph.placement) {
    if (seen.has(actor)) return actor
    seen.add(actor)
  }
  return undefined
}

/** How many actors there are: one more than the highest that has a stage. */
export function actorCount(graph: StageGraph): number {
  return Math.max(...graph.placement) + 1
}
