import type { ScheduleGenerator, ScheduleParameters, StageCosts } from '../generator.ts'
import { peakHeld } from '../held.ts'
import { distanceToEnd } from '../stage-graph.ts'
import type { Schedule, StageGraph } from '../types.ts'
import { refuseSharedActor } from './alternate.ts'
import { scheduleFromOrders } from './list-schedule.ts'
import { searchListSchedule, shortestSchedule } from './search.ts'
import { handcraftedSchedule } from './zero-bubble-handcrafted.ts'

/** ZB-1p: the shortest schedule found in the memory of 1F1B. */
export const zeroBubble1p: ScheduleGenerator = searching(
  'zb-1p',
  1,
  'searched from the times of F, I, W and hops: the shortest found in the memory of 1f1b',
)

/** ZB-2p: the same in twice that memory. */
export const zeroBubble2p: ScheduleGenerator = searching(
  'zb-2p',
  2,
  'searched from the times of F, I, W and hops: the shortest found in twice the memory of 1f1b',
)

/** Hundredths of an activation that are held from I to W. */
const keptShares: Readonly<Record<string, number>> = { third: 33, half: 50, whole: 100 }

function searching(name: string, factor: number, summary: string): ScheduleGenerator {
  return {
    name,
    summary,
    source:
      'Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 3 (limits); list scheduling with local search here',
    parameters: {
      memory: {
        kind: 'integer',
        summary: `most activations that a stage may hold; not set: ${factor === 1 ? '' : `${factor} x `}the number of stages`,
        minimum: 1,
        maximum: 65_536,
        default: null,
      },
      kept: {
        kind: 'choice',
        summary: 'how much of an activation is held from I to W, against the limit',
        choices: {
          third: 'a third: layers that keep their attention matrices, which only I needs',
          half: 'half: enough is freed by I to reach the printed rates',
          whole: 'all of it, as reported peaks of activations count it',
        },
        default: 'half',
      },
    },
    refuse: refuseSharedActor,
    generate: (graph, parameters, costs) => searchSchedule(graph, parameters, costs, factor),
    closedForms: { peakActivations: () => undefined, makespan: () => undefined },
  }
}

/** The best of the search and of the handcrafted schedules that keep the limit. */
function searchSchedule(
  graph: StageGraph,
  parameters: ScheduleParameters,
  costs: StageCosts,
  factor: number,
): Schedule {
  const kept = keptShares[String(parameters['kept'])] ?? 100
  const given = parameters['memory']
  const activations = typeof given === 'number' ? given : factor * (Math.max(...distanceToEnd(graph)) + 1)
  const found = searchListSchedule({ graph, costs, limit: activations * 100, kept })
  const schedules = [
    ...(found === undefined ? [] : [scheduleFromOrders(graph, found.orders)]),
    ...([1, 2] as const)
      .map((depth) => handcraftedSchedule(graph, depth))
      .filter((schedule) => Math.max(...peakHeld(schedule, kept)) <= activations),
  ]
  return shortestSchedule(schedules, graph, costs)
}
