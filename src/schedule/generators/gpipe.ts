import type { ScheduleGenerator } from '../generator.ts'
import { breadthFirst, breadthFirstSlots } from './breadth-first.ts'

/** All forwards, then all backwards. An actor with several stages does one after the other, and the reverse on the way back. */
export const gpipe: ScheduleGenerator = {
  name: 'gpipe',
  summary: 'all forwards, then all backwards: simple, holds the activations of every micro-batch',
  source: 'GPipe, Huang et al. 2019, section 2.3',
  parameters: {},
  generate(graph) {
    const { stages, microbatches, placement } = graph
    const backwards = breadthFirst(graph, 'B', 'backward')
    const forwards = breadthFirst(graph, 'F', 'forward')
    const actors = forwards.map((list, actor) => [...list, ...backwards[actor]!])
    return { stages, microbatches, placement, actors }
  },
  closedForms: {
    peakActivations: (_actor, { chunks, microbatches }) => chunks * microbatches,
    makespan: (shape, _parameters, { F, I, W }) => breadthFirstSlots(shape) * (F + I + W),
  },
}
