import { columnKinds } from '../program/index.ts'
import { deadlockError } from './deadlock.ts'
import { IntHeap } from './intHeap.ts'
import { ThreadLog } from './threadLog.ts'
import type { Network, Times } from './types.ts'

/** Sends or receives of one channel on one thread. */
interface Lane {
  readonly channel: number
  readonly sends: boolean
  posted: number
  completed: number
}

/** One thread. It is busy until its entry of the queue comes up, or it sleeps. */
interface Thread {
  readonly lanes: readonly Lane[]
  position: number
  /** Parts that were posted and are not complete. */
  outstanding: number
  asleep: boolean
  /** Action that woke it. */
  wokenBy: number
  /** What it is copying: takes effect when it is done. */
  copying: Lane | undefined
  /** Meeting that it waits in; -1 for none. */
  meeting: number
  /** When it leaves a meeting that has begun. */
  until: number
  busyUntil: number
}

/**
 * Plays a program as the local engine does (`engine/local/executor`): one thread a rank goes through the list. Exchanges
 * are posted where the list has them; messages are copied into a channel by the sender's thread and out of it by the
 * receiver's, each as soon as its channel lets it, but only between instructions and while the thread waits. Anything
 * else waits only for the transfers whose memory it touches, and a collective for its members, meanwhile copying. What a
 * cost model calls latency of a transfer is the sender's time here: between threads nothing is under way by itself. What a
 * step takes outside the lists comes before them.
 *
 * @throws MeshwrightError `SIMULATE_DEADLOCK`
 */
export function playLocal(network: Network): Times {
  return new LocalPlayer(network).play()
}

class LocalPlayer {
  private readonly network: Network
  private readonly threads: readonly Thread[]
  private readonly queue: IntHeap
  private readonly log: ThreadLog
  private readonly start: Float64Array
  private readonly end: Float64Array
  private readonly sendStart: Float64Array
  private readonly sendEnd: Float64Array
  private readonly arrival: Float64Array
  private readonly received: Float64Array
  private readonly meetingStart: Float64Array
  private readonly arrived: Int32Array
  private readonly left: Int32Array
  /** Messages that were put into each channel, and taken out. */
  private readonly put: Int32Array
  private readonly taken: Int32Array

  constructor(network: Network) {
    this.network = network
    const { nodes, ranks, channels, meetings, sender } = network
    const filled = (count: number): Float64Array => new Float64Array(count).fill(-1)
    this.start = filled(nodes)
    this.end = filled(nodes)
    this.sendStart = filled(sender.length)
    this.sendEnd = filled(sender.length)
    this.arrival = filled(sender.length)
    this.received = filled(sender.length)
    this.meetingStart = new Float64Array(meetings.length)
    this.arrived = new Int32Array(meetings.length)
    this.left = new Int32Array(nodes)
    this.put = new Int32Array(channels.length)
    this.taken = new Int32Array(channels.length)
    this.queue = new IntHeap(ranks.length)
    this.log = new ThreadLog(network)
    const lanes = ranks.map((): Lane[] => [])
    channels.forEach(({ from, to }, channel) => {
      lanes[from]!.push({ channel, sends: true, posted: 0, completed: 0 })
      lanes[to]!.push({ channel, sends: false, posted: 0, completed: 0 })
    })
    this.threads = lanes.map((own) => ({
      lanes: own,
      position: 0,
      outstanding: 0,
      asleep: false,
      wokenBy: -1,
      copying: undefined,
      meeting: -1,
      until: 0,
      busyUntil: 0,
    }))
  }

  play(): Times {
    const { network, queue, threads, start, end } = this
    for (let rank = 0; rank < threads.length; rank++) this.busy(rank, network.costs.step ?? 0)
    for (let rank = queue.pop(); rank >= 0; rank = queue.pop()) this.continue(rank, queue.time(rank))
    const stuck = new Map<number, number>()
    threads.forEach((thread, rank) => {
      const { length } = network.ranks[rank]!.plan
      if (thread.meeting >= 0 || thread.position < length) stuck.set(rank, thread.position)
      else if (thread.outstanding > 0) stuck.set(rank, this.unfinished(rank))
    })
    if (stuck.size > 0) throw deadlockError(network, stuck, end, start)
    let stepSeconds = 0
    for (const thread of threads) stepSeconds = Math.max(stepSeconds, thread.busyUntil)
    const { sendStart, sendEnd, arrival, received, meetingStart, log } = this
    return {
      network,
      stepSeconds,
      start,
      end,
      sendStart,
      sendEnd,
      arrival,
      received,
      meetingStart,
      criticalPath: () => log.criticalPath(stepSeconds),
      totalSlack: () => log.totalSlack(stepSeconds),
    }
  }

  private unfinished(rank: number): number {
    const { base, plan } = this.network.ranks[rank]!
    const open = this.left.subarray(base, base + plan.length)
    return open.findIndex((parts) => parts > 0)
  }

  /** The thread is free at `now`: takes effect what it did, then goes on until it is busy again, or sleeps. */
  private continue(rank: number, now: number): void {
    const { network, start, end } = this
    const thread = this.threads[rank]!
    const { plan, base } = network.ranks[rank]!
    if (thread.copying !== undefined) this.finishCopy(rank, thread.copying, now)
    if (thread.until > now) {
      this.busy(rank, thread.until)
      return
    }
    for (;;) {
      if (thread.outstanding > 0 && this.copyNext(rank, now)) return
      if (thread.meeting >= 0 || thread.position === plan.length) {
        thread.asleep = thread.meeting >= 0 || thread.outstanding > 0
        return
      }
      const at = thread.position
      const node = base + at
      const kind = plan.kind[at]!
      if (
        kind !== columnKinds.exchange &&
        !this.isReady(base, plan.deps, plan.depStart[at]!, plan.depStart[at + 1]!)
      ) {
        thread.asleep = true
        return
      }
      if (kind === columnKinds.collective) {
        start[node] = now
        if (this.arrive(rank, at, now)) return
        continue
      }
      thread.position++
      if (kind === columnKinds.exchange) {
        start[node] = now
        this.post(rank, at, now)
      } else if (kind !== columnKinds.free) {
        start[node] = now
        end[node] = now + plan.cost[at]!
        this.note(rank, node, -1, kind === columnKinds.move ? 'move' : 'compute', now, end[node]!)
        this.busy(rank, end[node]!)
        return
      }
    }
  }

  private note(
    rank: number,
    node: number,
    message: number,
    kind: Parameters<ThreadLog['add']>[3],
    start: number,
    end: number,
  ): void {
    const thread = this.threads[rank]!
    this.log.add(rank, node, message, kind, start, end, thread.wokenBy)
    thread.wokenBy = -1
  }

  private busy(rank: number, until: number): void {
    this.threads[rank]!.busyUntil = until
    this.queue.push(rank, until)
  }

  private ring(rank: number, now: number, action: number): void {
    const thread = this.threads[rank]!
    if (!thread.asleep) return
    thread.asleep = false
    thread.wokenBy = action
    this.queue.push(rank, now + (this.network.costs.wake ?? 0))
  }

  private isReady(base: number, deps: Int32Array, from: number, to: number): boolean {
    for (let at = from; at < to; at++) if (this.end[base + deps[at]!]! < 0) return false
    return true
  }

  private post(rank: number, at: number, now: number): void {
    const { network, threads } = this
    const { plan, base, messages } = network.ranks[rank]!
    const first = plan.partStart[at]!
    const last = plan.partStart[at + 1]!
    this.left[base + at] = last - first
    if (first === last) this.end[base + at] = now
    const thread = threads[rank]!
    thread.outstanding += last - first
    for (let part = first; part < last; part++) {
      const channel = network.channelOf[messages[part]!]!
      const sends = plan.partIsSend[part] === 1
      thread.lanes.find((lane) => lane.channel === channel && lane.sends === sends)!.posted++
    }
  }

  /** Starts the next copy that can be made, if there is one. */
  private copyNext(rank: number, now: number): boolean {
    const { network, put, taken } = this
    const thread = this.threads[rank]!
    const { plan, base } = network.ranks[rank]!
    for (const lane of thread.lanes) {
      if (lane.completed === lane.posted) continue
      const { channel, sends } = lane
      const message = network.channels[channel]!.first + lane.completed
      const can = sends
        ? put[channel]! - taken[channel]! < network.program.channelSlots
        : taken[channel]! < put[channel]!
      if (!can) continue
      const node = (sends ? network.sender : network.receiver)[message]!
      const at = node - base
      if (!this.isReady(base, plan.deps, plan.depStart[at]!, plan.depStart[at + 1]!)) continue
      const seconds = sends ? network.busy[message]! + network.latency[message]! : network.receive[message]!
      if (sends) this.sendStart[message] = now
      this.note(rank, node, message, sends ? 'send' : 'receive', now, now + seconds)
      thread.copying = lane
      this.busy(rank, now + seconds)
      return true
    }
    return false
  }

  private finishCopy(rank: number, lane: Lane, now: number): void {
    const { network, threads, end, left } = this
    const thread = threads[rank]!
    const { channel, sends } = lane
    const { first, from, to } = network.channels[channel]!
    const message = first + lane.completed
    thread.copying = undefined
    lane.completed++
    thread.outstanding--
    if (sends) {
      this.put[channel]!++
      this.sendEnd[message] = now
      this.arrival[message] = now
    } else {
      this.taken[channel]!++
      this.received[message] = now
    }
    const node = (sends ? network.sender : network.receiver)[message]!
    if (--left[node]! === 0) end[node] = now
    this.ring(sends ? to : from, now, this.log.latest(rank))
  }

  /** Whether the thread now has to wait for its turn in the queue: the meeting has begun. */
  private arrive(rank: number, at: number, now: number): boolean {
    const { network, threads, end } = this
    const index = network.ranks[rank]!.meetings.get(at)!
    const { expected, members, seconds } = network.meetings[index]!
    const own = threads[rank]!
    if (++this.arrived[index]! < expected) {
      own.meeting = index
      return false
    }
    let begun = now
    // Those that copy meanwhile come when they have done so.
    for (const member of members) {
      const thread = threads[member.rank]!
      if (thread.asleep) begun = Math.max(begun, now + (network.costs.wake ?? 0))
      else if (member.rank !== rank) begun = Math.max(begun, thread.busyUntil)
    }
    this.meetingStart[index] = begun
    const before = this.log.latest(rank)
    for (const member of members) {
      const thread = threads[member.rank]!
      const node = network.ranks[member.rank]!.base + member.instruction
      if (thread.asleep) thread.wokenBy = before
      this.note(member.rank, node, -1, 'collective', begun, begun + seconds)
      end[node] = begun + seconds
      thread.meeting = -1
      thread.position++
      thread.until = begun + seconds
      if (thread.asleep || member.rank === rank) this.busy(member.rank, begun + seconds)
      thread.asleep = false
    }
    this.log.join(members.length)
    return true
  }
}
