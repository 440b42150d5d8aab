import { internalError } from '../base/index.ts'
import { columnKinds } from '../program/index.ts'
import { rankOf } from './network.ts'
import type { Order } from './streams.ts'
import type { CriticalStep, RolePlan, SimulatedRank, Times } from './types.ts'

type StreamTimes = Omit<Times, 'criticalPath' | 'totalSlack'>

/** A moment that something else may have waited for. */
type Moment =
  /** An instruction was complete. */
  | { readonly at: 'end'; readonly node: number }
  /** An exchange was posted. */
  | { readonly at: 'post'; readonly node: number }
  /** A message had left its sender. */
  | { readonly at: 'sent'; readonly message: number }
  | { readonly at: 'received'; readonly message: number }

interface Cause {
  readonly moment: Moment
  readonly reason: CriticalStep['reason']
}

/** What waited for what, once all times are known: whatever begins does so at the very moment that it waited for. */
export class StreamGraph {
  private readonly times: StreamTimes
  private readonly order: Order
  private readonly previous = new Map<RolePlan, Int32Array>()

  constructor(times: StreamTimes, order: Order) {
    this.times = times
    this.order = order
  }

  /** From the end of the step back to its start. */
  criticalPath(): CriticalStep[] {
    const { end, stepSeconds, network } = this.times
    const steps: CriticalStep[] = []
    let last = end.indexOf(stepSeconds)
    if (last < 0) last = 0
    let cause: Cause | undefined =
      network.nodes > 0 ? { moment: { at: 'end', node: last }, reason: 'start' } : undefined
    while (cause !== undefined) {
      const step = this.stepTo(cause.moment)
      cause = step.before
      const { made } = step
      if (made !== undefined && made.seconds > 0) steps.push({ ...made, reason: cause?.reason ?? 'start' })
    }
    const first = steps.pop()
    if (first !== undefined) steps.push({ ...first, reason: 'start' })
    return steps.reverse()
  }

  /** What ended at a moment, and why it had not begun earlier. */
  private stepTo(moment: Moment): {
    readonly made: Omit<CriticalStep, 'reason'> | undefined
    readonly before: Cause | undefined
  } {
    const { network, start, end, sendStart, received, arrival } = this.times
    switch (moment.at) {
      case 'post':
        return { made: undefined, before: this.causeOf(moment.node) }
      case 'sent': {
        const { message } = moment
        const seconds = network.busy[message]!
        return {
          made: this.transferStep(message, sendStart[message]!, seconds),
          before: this.causeOfSend(message),
        }
      }
      case 'received': {
        const { message } = moment
        const begun = received[message]! - network.receive[message]!
        const node = network.receiver[message]!
        const taking = this.transferStep(message, begun, network.receive[message]!)
        if (sameTime(start[node]!, network.receive[message]!, received[message]!))
          return { made: taking, before: { moment: { at: 'post', node }, reason: 'order' } }
        if (sameTime(arrival[message]!, network.receive[message]!, received[message]!)) {
          const seconds = received[message]! - sendStart[message]!
          return {
            made: this.transferStep(message, sendStart[message]!, seconds),
            before: this.causeOfSend(message),
          }
        }
        return { made: taking, before: { moment: { at: 'received', message: message - 1 }, reason: 'order' } }
      }
      case 'end': {
        const { node } = moment
        const { rank, instruction } = this.place(node)
        const kind = rank.plan.kind[instruction]
        if (kind === columnKinds.exchange) return { made: undefined, before: this.causeOfExchange(node) }
        if (kind === columnKinds.collective) return this.collectiveStep(rank, instruction)
        const made = {
          rank: rank.rank,
          instruction,
          kind: kind === columnKinds.move ? ('move' as const) : ('compute' as const),
          start: start[node]!,
          seconds: end[node]! - start[node]!,
        }
        return { made, before: this.causeOf(node) }
      }
    }
  }

  private collectiveStep(rank: SimulatedRank, instruction: number): ReturnType<StreamGraph['stepTo']> {
    const { network, meetingStart, start } = this.times
    const index = rank.meetings.get(instruction)!
    const { members, seconds } = network.meetings[index]!
    const begun = meetingStart[index]!
    const made = { rank: rank.rank, instruction, kind: 'collective' as const, start: begun, seconds }
    // The member that came last.
    for (const member of members) {
      const last = network.ranks[member.rank]!
      const node = last.base + member.instruction
      if (start[node] !== begun) continue
      const before = this.causeOf(node)
      return {
        made: { ...made, rank: last.rank, instruction: member.instruction },
        before: before && (members.length > 1 ? { ...before, reason: 'collective' } : before),
      }
    }
    return { made, before: this.resourceCause(network.nodes + 2 * network.sender.length + index) }
  }

  private transferStep(message: number, start: number, seconds: number): Omit<CriticalStep, 'reason'> {
    const { rank, instruction } = this.place(this.times.network.sender[message]!)
    return { rank: rank.rank, instruction, kind: 'transfer', start, seconds, message }
  }

  /** Why an instruction began (an exchange: was posted) when it did. */
  causeOf(node: number): Cause | undefined {
    const { start, end } = this.times
    const time = start[node]!
    if (time <= 0) return undefined
    const { rank, instruction } = this.place(node)
    const { plan, base } = rank
    for (let at = plan.depStart[instruction]!; at < plan.depStart[instruction + 1]!; at++) {
      const earlier = base + plan.deps[at]!
      if (end[earlier] === time) return { moment: { at: 'end', node: earlier }, reason: 'data' }
    }
    const before = this.previousOf(plan)[instruction]!
    if (before >= 0) {
      const earlier = base + before
      const posts = plan.kind[before] === columnKinds.exchange
      if ((posts ? start : end)[earlier] === time)
        return { moment: { at: posts ? 'post' : 'end', node: earlier }, reason: 'order' }
    }
    return this.resourceCause(node)
  }

  private causeOfSend(message: number): Cause | undefined {
    const { network, start, sendStart, sendEnd, received } = this.times
    const time = sendStart[message]!
    const node = network.sender[message]!
    if (start[node] === time) return { moment: { at: 'post', node }, reason: 'data' }
    const { first } = network.channels[network.channelOf[message]!]!
    if (message > first && sendEnd[message - 1] === time)
      return { moment: { at: 'sent', message: message - 1 }, reason: 'order' }
    const slot = message - network.program.channelSlots
    if (slot >= first && received[slot] === time)
      return { moment: { at: 'received', message: slot }, reason: 'slot' }
    return this.resourceCause(network.nodes + message)
  }

  private causeOfExchange(node: number): Cause {
    const { start, end, received, sendEnd } = this.times
    const time = end[node]!
    const { rank, instruction } = this.place(node)
    const { plan, messages } = rank
    for (let part = plan.partStart[instruction]!; part < plan.partStart[instruction + 1]!; part++) {
      const message = messages[part]!
      if (plan.partIsSend[part] === 0 && received[message] === time)
        return { moment: { at: 'received', message }, reason: 'data' }
      if (plan.partIsSend[part] === 1 && sendEnd[message] === time && time > start[node]!)
        return { moment: { at: 'sent', message }, reason: 'data' }
    }
    return { moment: { at: 'post', node }, reason: 'order' }
  }

  private resourceCause(activity: number): Cause {
    const { network } = this.times
    const before = this.order.resourceBefore?.[activity] ?? -1
    if (before < 0) throw internalError(`nothing explains when activity ${activity} began`)
    if (before < network.nodes) return { moment: { at: 'end', node: before }, reason: 'resource' }
    const message = before - network.nodes
    if (message < network.sender.length) return { moment: { at: 'sent', message }, reason: 'resource' }
    const [member] = network.meetings[message - 2 * network.sender.length]!.members
    const node = network.ranks[member!.rank]!.base + member!.instruction
    return { moment: { at: 'end', node }, reason: 'resource' }
  }

  private place(node: number): { readonly rank: SimulatedRank; readonly instruction: number } {
    const { network } = this.times
    const rank = network.ranks[rankOf(network, node)]!
    return { rank, instruction: node - rank.base }
  }

  private previousOf(plan: RolePlan): Int32Array {
    let previous = this.previous.get(plan)
    if (previous === undefined) {
      previous = new Int32Array(plan.length).fill(-1)
      for (const items of plan.streams)
        for (let at = 1; at < items.length; at++) previous[items[at]!] = items[at - 1]!
      this.previous.set(plan, previous)
    }
    return previous
  }

  /**
   * By how much each message could arrive later without making the step longer: the latest time of everything, found in
   * the reverse of the order in which times were found, all orders and turns kept.
   */
  totalSlack(): Float64Array {
    const { network, stepSeconds, start, end, arrival } = this.times
    const { nodes, ranks, sender, receiver, channels, channelOf, busy, latency, receive } = network
    const messages = sender.length
    const slots = network.program.channelSlots
    const { activities, resourceBefore } = this.order
    const lateEnd = new Float64Array(nodes).fill(stepSeconds)
    const latePost = new Float64Array(nodes).fill(stepSeconds)
    const lateSent = new Float64Array(messages).fill(stepSeconds)
    const lateReceived = lateSent.slice()
    const lateArrival = lateSent.slice()
    const lower = (times: Float64Array, index: number, time: number): void => {
      if (time < times[index]!) times[index] = time
    }
    const lowerHolder = (activity: number, time: number): void => {
      const before = resourceBefore?.[activity] ?? -1
      if (before < 0) return
      if (before < nodes) lower(lateEnd, before, time)
      else if (before < nodes + messages) lower(lateSent, before - nodes, time)
      else
        for (const member of network.meetings[before - nodes - 2 * messages]!.members)
          lower(lateEnd, ranks[member.rank]!.base + member.instruction, time)
    }
    const lowerBefore = (node: number, time: number): void => {
      const { rank, instruction } = this.place(node)
      const { plan, base } = rank
      for (let at = plan.depStart[instruction]!; at < plan.depStart[instruction + 1]!; at++)
        lower(lateEnd, base + plan.deps[at]!, time)
      const before = this.previousOf(plan)[instruction]!
      if (before < 0) return
      lower(plan.kind[before] === columnKinds.exchange ? latePost : lateEnd, base + before, time)
    }
    for (let at = activities.length - 1; at >= 0; at--) {
      const activity = activities[at]!
      if (activity < nodes) {
        const { rank, instruction } = this.place(activity)
        const kind = rank.plan.kind[instruction]
        if (kind === columnKinds.collective) continue
        if (kind === columnKinds.exchange) {
          lowerBefore(activity, Math.min(latePost[activity]!, lateEnd[activity]!))
          continue
        }
        const late = lateEnd[activity]! - (end[activity]! - start[activity]!)
        lowerBefore(activity, late)
        lowerHolder(activity, late)
      } else if (activity < nodes + messages) {
        const message = activity - nodes
        const { first } = channels[channelOf[message]!]!
        const left = Math.min(
          lateSent[message]!,
          lateEnd[sender[message]!]!,
          lateArrival[message]! - latency[message]!,
        )
        const late = left - busy[message]!
        lower(latePost, sender[message]!, late)
        if (message > first) lower(lateSent, message - 1, late)
        if (message - slots >= first) lower(lateReceived, message - slots, late)
        lowerHolder(activity, late)
      } else if (activity < nodes + 2 * messages) {
        const message = activity - nodes - messages
        const { first } = channels[channelOf[message]!]!
        const late = Math.min(lateReceived[message]!, lateEnd[receiver[message]!]!) - receive[message]!
        lateArrival[message] = late
        lower(latePost, receiver[message]!, late)
        if (message > first) lower(lateReceived, message - 1, late)
      } else {
        const { members, seconds } = network.meetings[activity - nodes - 2 * messages]!
        const own = members.map(({ rank, instruction }) => ranks[rank]!.base + instruction)
        const late = own.reduce((least, node) => Math.min(least, lateEnd[node]!), stepSeconds) - seconds
        for (const node of own) lowerBefore(node, late)
        lowerHolder(activity, late)
      }
    }
    return lateArrival.map((late, message) => late - arrival[message]!)
  }
}

/** Whether `time` was made as this sum, to the last bit. */
function sameTime(begun: number, seconds: number, time: number): boolean {
  return begun + seconds === time
}
