import type { ScheduleGenerator } from '../generator.ts'
import { gpipe } from './gpipe.ts'
import { chunksParameter, loopedPlacement, refuseUnlessLooped } from './looped-placement.ts'

/**
 * GPipe over several chunks of each actor. More chunks shorten the way through the actors against the work of each, so
 * that idle time falls as in interleaved 1F1B, while each chunk is passed but twice: its parameters are gathered twice.
 */
export const loopedBreadthFirst: ScheduleGenerator = {
  name: 'looped-bfs',
  summary:
    'all forwards chunk by chunk, then all backwards: little idle time, activations of every micro-batch',
  source: 'Breadth-First Pipeline Parallelism, Lamy-Poirier 2023',
  parameters: { chunks: chunksParameter },
  place: loopedPlacement,
  refuse: refuseUnlessLooped,
  generate: gpipe.generate,
  closedForms: gpipe.closedForms,
}
