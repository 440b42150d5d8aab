import type { ScheduleGenerator } from '../generator.ts'
import { actorCount, distanceToEnd } from '../stage-graph.ts'
import type { Action, Schedule, StageGraph } from '../types.ts'
import { refuseSharedActor } from './alternate.ts'

/** ZB-H1: the warm-up of 1F1B, and as many activations on every stage as 1F1B has on the first. */
export const zeroBubbleH1: ScheduleGenerator = handcrafted(
  1,
  'zb-h1',
  'backward split in two, weight halves put off to fill the drain: a third of the bubble of 1f1b, in its peak memory',
)

/** ZB-H2: about twice the warm-up, so that no stage waits for its first cotangent. */
export const zeroBubbleH2: ScheduleGenerator = handcrafted(
  2,
  'zb-h2',
  'as zb-h1 with a warm-up as long as the way to the end and back: no bubble for equal F, I and W, twice the memory',
)

/**
 * Stage i of S injects `depth (S - i - 1) + 1` forwards, alternates I and F `depth i` times with no W between, then
 * rotates I, W and F, whichever still has micro-batches left. So every stage puts off `depth i` of its W, which fill
 * the time between its last I and the end. On a graph of stages what counts is the longest way to the end.
 */
export function handcraftedSchedule(graph: StageGraph, depth: 1 | 2): Schedule {
  const actors: Action[][] = Array.from({ length: actorCount(graph) }, () => [])
  const distances = distanceToEnd(graph)
  const longest = Math.max(...distances)
  const { stages, microbatches, placement } = graph
  for (const [stage, distance] of distances.entries()) {
    const actions = actors[placement[stage]!]!
    const done = new Map([
      ['F', 0],
      ['I', 0],
      ['W', 0],
    ])
    const push = (phase: string): void => {
      const microbatch = done.get(phase)!
      if (microbatch === microbatches) return
      done.set(phase, microbatch + 1)
      actions.push({ phase, stage, microbatch })
    }
    for (let forward = 0; forward < depth * distance + 1; forward++) push('F')
    for (let pair = 0; pair < depth * (longest - distance); pair++) {
      push('I')
      push('F')
    }
    while (done.get('W')! < microbatches) {
      push('I')
      push('W')
      push('F')
    }
  }
  return { stages, microbatches, placement, actors }
}

function handcrafted(depth: 1 | 2, name: string, summary: string): ScheduleGenerator {
  return {
    name,
    summary,
    source: 'Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 2.2 and table 2',
    parameters: {},
    refuse: refuseSharedActor,
    generate: (graph) => handcraftedSchedule(graph, depth),
    closedForms: {
      peakActivations: (_actor, { actors, microbatches }) => Math.min(depth * (actors - 1) + 1, microbatches),
      makespan: ({ actors, microbatches }, _parameters, { F, I, W }) => {
        const bubble = depth === 1 ? bubbleOfH1 : bubbleOfH2
        const rest = bubble(actors, microbatches, { F, I, W })
        return rest === undefined ? undefined : microbatches * (F + I + W) + rest
      },
    },
  }
}

interface Times {
  readonly F: number
  readonly I: number
  readonly W: number
}

/** (S - 1)(F + I - W) of the paper where W is the shortest and M >= S; each micro-batch less hides one W less. */
function bubbleOfH1(stages: number, microbatches: number, { F, I, W }: Times): number {
  return (stages - 1) * (F + I) - (Math.min(microbatches, stages) - 1) * Math.min(F, I, W)
}

/**
 * From the start of the first actor to the end of the last. The paper's (S - 1)(F + I - 2W) where that is longest; where
 * it is not, no actor idles between its first and last action for F = I = W, and the last still starts (S - 1) F late.
 * Fewer micro-batches than the warm-up have a form only where two W are shorter than one I.
 */
function bubbleOfH2(stages: number, microbatches: number, { F, I, W }: Times): number | undefined {
  if (microbatches >= 2 * stages - 1) return (stages - 1) * Math.max(F, F + I - 2 * W, I - F)
  if (2 * W <= I && W <= F) return (stages - 1) * (F + I) - (microbatches - 1) * W
  return undefined
}
