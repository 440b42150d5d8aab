import type { ScheduleGenerator } from '../generator.ts'
import type { Action, ScheduleEntry, StageGraph } from '../types.ts'
import { placeV, refuseUnlessV } from './v-placement.ts'

/** Builds one actor's list: chunk 0 is stage r, chunk 1 is stage 2P - 1 - r; micro-batches of each in order. */
class ActorList {
  readonly entries: ScheduleEntry[] = []
  private readonly stages: readonly [number, number]
  private readonly forwards: [number, number] = [0, 0]
  private readonly backwards: [number, number] = [0, 0]
  /** Weight halves that were put off, first in first out. */
  private readonly waiting: Action[] = []

  constructor(first: number, second: number) {
    this.stages = [first, second]
  }

  forward(chunk: 0 | 1): void {
    this.entries.push(this.nextForward(chunk))
  }

  backward(chunk: 0 | 1): void {
    this.entries.push(this.nextBackward('B', chunk))
  }

  inputs(chunk: 0 | 1): void {
    const action = this.nextBackward('I', chunk)
    this.entries.push(action)
    this.waiting.push({ ...action, phase: 'W' })
  }

  /** The oldest weight half that was put off. */
  weights(): void {
    const action = this.waiting.shift()
    if (action !== undefined) this.entries.push(action)
  }

  /** A forward of one chunk and a backward of the other, which may interleave. */
  both(forward: 0 | 1, backward: 0 | 1): void {
    this.entries.push({ pair: [this.nextForward(forward), this.nextBackward('B', backward)] })
  }

  private nextForward(chunk: 0 | 1): Action {
    return { phase: 'F', stage: this.stages[chunk], microbatch: this.forwards[chunk]++ }
  }

  private nextBackward(phase: 'B' | 'I', chunk: 0 | 1): Action {
    return { phase, stage: this.stages[chunk], microbatch: this.backwards[chunk]++ }
  }
}

/**
 * Eight phases an actor (DeepSeek): forwards of the first chunk; forwards of both; backwards of the second chunk in
 * halves with forwards of it; the main part, where every forward of one chunk overlaps a backward of the other;
 * backwards of the second chunk with overlapping pairs; backwards of both, the weight halves put off from its middle
 * on; weight halves that fill the waits for the last cotangents; the rest of them.
 */
export const dualPipeV: ScheduleGenerator = {
  name: 'dualpipe-v',
  summary:
    'two chunks an actor, down and back up, forwards overlapping backwards: transfers hide behind work',
  source:
    'DeepSeek-AI 2025, DualPipeV (cut in half from DualPipe, DeepSeek-V3 technical report, section 3.2.1)',
  parameters: {},
  place: placeV,
  refuse(graph) {
    const shape = refuseUnlessV(graph)
    if (shape !== undefined || graph.microbatches >= graph.stages) return shape
    return `${graph.stages / 2} actors need at least ${graph.stages} micro-batches, two for each, and there are ${graph.microbatches}`
  },
  generate(graph) {
    const actors = Array.from({ length: graph.stages / 2 }, (_, actor) => actorEntries(graph, actor))
    const { stages, microbatches, placement } = graph
    return { stages, microbatches, placement, actors }
  },
  closedForms: {
    peakActivations: (_actor, { actors }) => 2 * actors + 1,
    /** A pair takes as long as its two actions one after the other; its time overlapped is the engine's to say. */
    makespan: ({ actors, microbatches }, _parameters, { F, I, W }) =>
      F >= I && I >= W ? 2 * microbatches * (F + I + W) + (actors - 1) * (2 * F + I - W) : undefined,
  },
}

function actorEntries({ stages, microbatches }: StageGraph, actor: number): readonly ScheduleEntry[] {
  const actors = stages / 2
  const after = actors - 1 - actor
  const list = new ActorList(actor, stages - 1 - actor)
  const repeat = (times: number, step: (index: number) => void): void => {
    for (let index = 0; index < times; index++) step(index)
  }
  repeat(2 * after, () => list.forward(0))
  repeat(actor + 1, () => {
    list.forward(0)
    list.forward(1)
  })
  repeat(after, () => {
    list.inputs(1)
    list.weights()
    list.forward(1)
  })
  repeat(microbatches - stages + actor + 1, (index) => {
    // The last actor turns round: its first backward needs the forward before it, so the two do not overlap.
    if (index === 0 && after === 0) {
      list.forward(0)
      list.backward(1)
    } else list.both(0, 1)
    list.both(1, 0)
  })
  repeat(after, () => {
    list.backward(1)
    list.both(1, 0)
  })
  // Of 2 (actor + 1) backwards the second half leaves its weights for later.
  repeat(2 * (actor + 1), (index) => {
    const chunk = index % 2 === 0 ? 1 : 0
    if (index > actor) list.inputs(chunk)
    else list.backward(chunk)
  })
  repeat(after, () => {
    list.weights()
    list.inputs(0)
  })
  repeat(actor + 1, () => list.weights())
  return list.entries
}
