import {
  arenaBytes,
  type BufferKind,
  bufferKind,
  bufferKinds,
  columnKinds,
  type Role,
  slotBytes,
} from '../program/index.ts'
import { phases } from '../schedule/index.ts'
import type { HeldBytes, RankResult, SimulatedRank, Times } from './types.ts'

/** Buffers that are named at the peak. */
const namedBuffers = 12

/** Bytes held from one moment on. */
export interface MemoryPoint {
  readonly time: number
  readonly value: number
}

type MemoryResult = Pick<
  RankResult,
  'arenaBytes' | 'peakBytes' | 'peakAt' | 'peakByKind' | 'peakBuffers' | 'peakByTier' | 'peakActivations'
>

/** Bytes of one value of each buffer, and what is always there. */
interface RoleMemory {
  readonly bytes: Float64Array
  readonly kept: readonly boolean[]
  /** Index of the tier. */
  readonly tier: readonly number[]
  readonly tiers: readonly string[]
}

function roleMemory(role: Role): RoleMemory {
  const tiers = [...new Set(role.buffers.map(({ tier }) => tier))]
  return {
    bytes: Float64Array.from(role.buffers, slotBytes),
    kept: role.buffers.map(({ state, constant }) => state === true || constant !== undefined),
    tier: role.buffers.map(({ tier }) => tiers.indexOf(tier)),
    tiers,
  }
}

/**
 * A value is held from the start of the first instruction that touches it (a receive: from when it is posted) until the
 * last that does so before its free has ended; never freed, to the end of the step. State and constants always are. At
 * one moment what ends goes before what begins.
 */
function walkMemory(
  times: Times,
  rank: SimulatedRank,
  role: Role,
  visit: (time: number, buffer: number, count: 1 | -1) => void,
): void {
  const { start, end, stepSeconds } = times
  const { base } = rank
  const { value, first, useStart, uses } = rank.plan.lives
  const count = value.length
  const from = new Float64Array(count)
  const to = new Float64Array(count)
  for (let at = 0; at < count; at++) {
    from[at] = start[base + first[at]!]!
    let last = useStart[at] === useStart[at + 1] ? stepSeconds : 0
    for (let use = useStart[at]!; use < useStart[at + 1]!; use++)
      last = Math.max(last, end[base + uses[use]!]!)
    to[at] = last
  }
  // Nearly in order as they are: the list is.
  const begins = Array.from({ length: count }, (_, at) => at)
  const ends = begins.slice()
  begins.sort((a, b) => from[a]! - from[b]!)
  ends.sort((a, b) => to[a]! - to[b]!)
  let done = 0
  for (const at of begins) {
    const now = from[at]!
    for (; done < count && to[ends[done]!]! <= now; done++) leave(ends[done]!)
    // What lives for no time at all is not held.
    if (to[at]! > now) visit(now, role.values[value[at]!]!.buffer, 1)
  }
  for (; done < count; done++) leave(ends[done]!)

  function leave(at: number): void {
    if (to[at]! > from[at]!) visit(to[at]!, role.values[value[at]!]!.buffer, -1)
  }
}

/** What the rank holds over time, as the corners of a step function. */
export function memoryPoints(times: Times, rank: SimulatedRank): MemoryPoint[] {
  const role = times.network.program.roles[rank.plan.index]!
  const memory = roleMemory(role)
  let held = keptBytes(memory)
  const points: { time: number; value: number }[] = [{ time: 0, value: held }]
  walkMemory(times, rank, role, (time, buffer, count) => {
    held += count * memory.bytes[buffer]!
    const last = points.at(-1)!
    if (last.time === time) last.value = held
    else points.push({ time, value: held })
  })
  return points
}

function keptBytes({ bytes, kept }: RoleMemory, tier?: (buffer: number) => boolean): number {
  return bytes.reduce(
    (sum, one, buffer) => (kept[buffer] === true && tier?.(buffer) !== false ? sum + one : sum),
    0,
  )
}

export function measureMemory(times: Times, rank: SimulatedRank): MemoryResult {
  const role = times.network.program.roles[rank.plan.index]!
  const memory = roleMemory(role)
  const { bytes, kept, tier, tiers } = memory
  const byTier = tiers.map((_, index) => keptBytes(memory, (buffer) => tier[buffer] === index))
  const peakByTier = byTier.slice()
  let held = keptBytes(memory)
  let peak = held
  let peakAt = 0
  let isCurrent = true
  const live = Int32Array.from(kept, (always) => (always ? 1 : 0))
  let atPeak = live.slice()
  walkMemory(times, rank, role, (time, buffer, count) => {
    // The counts of a peak are copied when it is left, not at each step up to it.
    if (count < 0 && isCurrent) {
      atPeak.set(live)
      isCurrent = false
    }
    live[buffer]! += count
    held += count * bytes[buffer]!
    byTier[tier[buffer]!]! += count * bytes[buffer]!
    peakByTier[tier[buffer]!] = Math.max(peakByTier[tier[buffer]!]!, byTier[tier[buffer]!]!)
    if (held <= peak) return
    peak = held
    peakAt = time
    isCurrent = true
  })
  if (isCurrent) atPeak = live.slice()
  const byKind = Object.fromEntries(bufferKinds.map((kind) => [kind, 0])) as Record<BufferKind, number>
  const buffers: HeldBytes[] = []
  role.buffers.forEach((buffer, index) => {
    const total = atPeak[index]! * bytes[index]!
    if (total === 0) return
    byKind[bufferKind(buffer)] += total
    buffers.push({ name: buffer.name, bytes: total })
  })
  buffers.sort((a, b) => b.bytes - a.bytes)
  return {
    arenaBytes: arenaBytes(role),
    peakBytes: peak,
    peakAt,
    peakByKind: byKind,
    peakBuffers: buffers.slice(0, namedBuffers),
    peakByTier: Object.fromEntries(tiers.map((name, index) => [name, peakByTier[index]!])),
    peakActivations: peakActivations(times, rank, role),
  }
}

/** Micro-batches of stages between the start of their forward and the end of what releases them. */
function peakActivations(times: Times, { plan, base }: SimulatedRank, role: Role): number {
  const changes = new Map<string, { time: number; readonly by: number }>()
  const { start, operands } = role.code
  for (let at = 0; at < plan.length; at++) {
    const action = plan.kind[at] === columnKinds.run ? role.actions[operands[start[at]!]! - 1] : undefined
    if (action === undefined) continue
    // An action in several runs begins with the first and releases with the last.
    for (const letter of action.phase) {
      const by = phases.get(letter)?.activations ?? 0
      if (by === 0) continue
      const time = (by > 0 ? times.start : times.end)[base + at]!
      const key = `${letter} ${action.stage} ${action.microbatch} ${action.slice ?? ''}`
      const known = changes.get(key)
      if (known === undefined) changes.set(key, { time, by })
      else known.time = by > 0 ? Math.min(known.time, time) : Math.max(known.time, time)
    }
  }
  let now = 0
  let peak = 0
  for (const { by } of [...changes.values()].sort((a, b) => a.time - b.time || a.by - b.by)) {
    now += by
    peak = Math.max(peak, now)
  }
  return peak
}
