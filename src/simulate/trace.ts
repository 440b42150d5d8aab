import { columnKinds, rankCount, readInstruction } from '../program/index.ts'
import { byStart, instructionEvent, type Trace, type TraceEvent } from '../trace/index.ts'
import type { SimulatedRank, SimulationResult, Times } from './types.ts'

/**
 * What a simulation predicts, as a trace. A transfer begins when it is posted, or when the one before it on its stream
 * has ended, as measured ones do. Of ranks that do the same at the same times the first has events.
 */
export function simulationTrace({ program, times }: SimulationResult): Trace {
  const events: TraceEvent[] = []
  for (const rank of times.network.ranks) {
    const role = program.roles[rank.plan.index]!
    const streamEnds = program.streams.map(() => 0)
    for (let at = 0; at < rank.plan.length; at++) {
      const instruction = readInstruction(role.code, at)
      if (instruction.kind === 'free') continue
      const node = rank.base + at
      const end = times.end[node]!
      let start = times.start[node]!
      if (instruction.kind === 'exchange') {
        start = Math.min(end, Math.max(start, streamEnds[instruction.stream]!))
        streamEnds[instruction.stream] = Math.max(streamEnds[instruction.stream]!, end)
      }
      const ready = readyAt(times, rank, at)
      events.push(
        instructionEvent(program, role, instruction, { rank: rank.rank, index: at, start, end, ready }),
      )
    }
  }
  return { ranks: rankCount(program.mesh), streams: program.streams, events: events.sort(byStart) }
}

/** When those that an instruction meets were all ready for it; 0 where it meets none. */
function readyAt(times: Times, { plan, meetings, messages }: SimulatedRank, at: number): number {
  if (plan.kind[at] === columnKinds.collective) return times.meetingStart[meetings.get(at)!]!
  let ready = 0
  for (let part = plan.partStart[at]!; part < plan.partStart[at + 1]!; part++)
    ready = Math.max(ready, times.sendStart[messages[part]!]!)
  return ready
}
