import type { ScheduleGenerator } from '../generator.ts'
import { actorCount, forwardOrder } from '../stage-graph.ts'
import type { Action } from '../types.ts'

/**
 * All forwards, then all backwards, both in the order of micro-batches, so that gradients add up in the order in which
 * a serial loop adds them. An actor with several stages does one stage after the other, and the reverse on the way back.
 */
export const gpipe: ScheduleGenerator = {
  name: 'gpipe',
  summary: 'all forwards, then all backwards: simple, holds the activations of every micro-batch',
  source: 'GPipe, Huang et al. 2019, section 2.3',
  parameters: {},
  generate(graph) {
    const actors: Action[][] = Array.from({ length: actorCount(graph) }, () => [])
    const order = forwardOrder(graph)
    const pass = (phase: string, stages: readonly number[]): void => {
      for (const stage of stages)
        for (let microbatch = 0; microbatch < graph.microbatches; microbatch++)
          actors[graph.placement[stage]!]!.push({ phase, stage, microbatch })
    }
    pass('F', order)
    pass('B', order.toReversed())
    const { stages, microbatches, placement } = graph
    return { stages, microbatches, placement, actors }
  },
  closedForms: {
    peakInFlight: (_stage, { microbatches }) => microbatches,
    makespan: ({ stages, microbatches }, _parameters, { F, B }) => (microbatches + stages - 1) * (F + B),
  },
}
