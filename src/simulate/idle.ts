import { columnKinds } from '../program/index.ts'
import type { IdleSeconds, RolePlan, SimulatedRank, Times } from './types.ts'

type Wait = 'transfer' | 'collective' | 'other'

/**
 * Time a rank computes, and why it does not in between. A gap is put down to what the run after it waited for.
 * `onThread`: one thread does everything, in the order of the list.
 */
export function measureIdle(
  times: Times,
  rank: SimulatedRank,
  onThread: boolean,
): { readonly busySeconds: number; readonly idle: IdleSeconds } {
  const { start, end, stepSeconds } = times
  const { plan, base } = rank
  const idle = { warmup: 0, drain: 0, transfer: 0, collective: 0, other: 0 }
  let busy = 0
  let reached = 0
  let before = -1
  const runs: number[] = []
  for (let at = 0; at < plan.length; at++)
    if (plan.kind[at] === columnKinds.run && plan.cost[at]! > 0) runs.push(at)
  runs.sort((a, b) => start[base + a]! - start[base + b]!)
  for (const at of runs) {
    const [from, to] = [start[base + at]!, end[base + at]!]
    if (from > reached) {
      if (before < 0) idle.warmup += from - reached
      else idle[waitedFor(times, rank, at, before, onThread)] += from - reached
    }
    if (to > reached) {
      busy += to - Math.max(from, reached)
      reached = to
      before = at
    }
  }
  if (busy > 0) idle.drain = stepSeconds - reached
  else idle.warmup = stepSeconds
  return { busySeconds: busy, idle: { ...idle, total: Math.max(0, stepSeconds - busy) } }
}

/**
 * What a run waited for: of what had to come before it, what ended last; looked for beyond runs that take no time. A
 * single thread may also have been held up by what stands between the two runs in its list.
 */
function waitedFor(
  times: Times,
  { plan, base }: SimulatedRank,
  run: number,
  before: number,
  onThread: boolean,
): Wait {
  const { start, end } = times
  const since = end[base + before]!
  let at = run
  for (;;) {
    let latest = -1
    for (const earlier of candidates(plan, at))
      if (latest < 0 || end[base + earlier]! > end[base + latest]!) latest = earlier
    if (latest < 0 || end[base + latest]! <= since) break
    if (plan.kind[latest] !== columnKinds.run) return waits[plan.kind[latest]!]!
    if (plan.cost[latest]! > 0) return 'other'
    at = latest
  }
  if (!onThread) return 'other'
  let latest = -1
  for (let between = before + 1; between < run; between++) {
    const ended = end[base + between]!
    if (ended <= since || ended > start[base + run]!) continue
    if (latest < 0 || ended > end[base + latest]!) latest = between
  }
  // Between instructions a thread has nothing to do but copy messages.
  return latest < 0 || plan.kind[latest] === columnKinds.run ? 'transfer' : waits[plan.kind[latest]!]!
}

/** By kind of instruction. */
const waits: readonly Wait[] = ['other', 'transfer', 'collective', 'other']

function* candidates(plan: RolePlan, at: number): Generator<number> {
  for (let place = plan.depStart[at]!; place < plan.depStart[at + 1]!; place++) yield plan.deps[place]!
  const items = plan.streams[plan.stream[at]!]!
  const place = placeOf(items, at)
  if (place > 0) yield items[place - 1]!
}

/** Place of an instruction in its stream: they ascend. */
function placeOf(items: Int32Array, at: number): number {
  let low = 0
  let high = items.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (items[middle]! < at) low = middle + 1
    else high = middle
  }
  return low
}
