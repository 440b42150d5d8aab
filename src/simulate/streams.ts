import { columnKinds } from '../program/index.ts'
import { deadlockError } from './deadlock.ts'
import { IntHeap } from './intHeap.ts'
import { rankOf } from './network.ts'
import { StreamGraph } from './streamGraph.ts'
import type { Network, SimulatedRank, Times } from './types.ts'

/** Activities in the order in which they were decided, which respects all that they wait for. */
export interface Order {
  /** Nodes, then messages as sent (nodes + m), then as received (nodes + messages + m), then meetings. */
  readonly activities: Int32Array
  /** By activity: the one that had its resource before; -1 for none. */
  readonly resourceBefore: Int32Array | undefined
}

/**
 * Plays a program whose streams work side by side. Each stream is a cursor over its instructions: it goes on until
 * something it waits for is not decided yet, and is woken when it is. An exchange is posted when the stream comes to it
 * and what it touches is ready; the stream goes on to post the next. A message leaves when its send is posted, the one
 * before it on its channel has left and, with `channelSlots` k, the one k before it was received.
 *
 * With `turns`, what needs a resource (runs, collectives, moves; a send while it is busy) enters a queue by the time at
 * which it is ready. The earliest is taken once nothing else can be decided, so nobody can be ready before it any more.
 *
 * @throws MeshwrightError `SIMULATE_DEADLOCK`
 */
export function playStreams(network: Network, turns: boolean): Times {
  return new Player(network, turns).play()
}

const resourceKinds = { compute: 0, network: 1, host: 2, cpu: 3 } as const
const resourceCount = 4

class Player {
  private readonly network: Network
  private readonly start: Float64Array
  private readonly end: Float64Array
  private readonly sendPost: Float64Array
  private readonly recvPost: Float64Array
  private readonly sendStart: Float64Array
  private readonly sendEnd: Float64Array
  private readonly arrival: Float64Array
  private readonly received: Float64Array
  private readonly meetingStart: Float64Array
  private readonly arrived: Int32Array
  /** Parts of exchanges that are not complete, by node. */
  private readonly left: Int32Array
  /** When the last of those that are was, by node. */
  private readonly reached: Float64Array
  private readonly sent: Int32Array
  private readonly taken: Int32Array
  private readonly queued: Uint8Array
  // Cursors: one for each rank and stream.
  private readonly cursorRank: number[] = []
  private readonly cursorItems: Int32Array[] = []
  private readonly position: Int32Array
  private readonly clock: Float64Array
  /** Node at whose end the cursor goes on; -1 for none. */
  private readonly parked: Int32Array
  private readonly waiter: Int32Array
  private readonly nextWaiter: Int32Array
  private readonly runnable: number[] = []
  private readonly activities: Int32Array
  private decided = 0
  // Only with turns.
  private readonly heap: IntHeap | undefined
  private readonly resourceFree: Float64Array
  private readonly resourceLast: Int32Array
  private readonly resourceBefore: Int32Array | undefined
  private readonly streamResource: readonly number[]

  constructor(network: Network, turns: boolean) {
    this.network = network
    const { nodes, ranks, channels, meetings, program } = network
    const messages = network.sender.length
    const undecided = (): Float64Array => new Float64Array(nodes).fill(-1)
    this.start = undecided()
    this.end = undecided()
    const ofMessages = (): Float64Array => new Float64Array(messages).fill(-1)
    this.sendPost = ofMessages()
    this.recvPost = ofMessages()
    this.sendStart = ofMessages()
    this.sendEnd = ofMessages()
    this.arrival = ofMessages()
    this.received = ofMessages()
    this.meetingStart = new Float64Array(meetings.length)
    this.arrived = new Int32Array(meetings.length)
    this.left = new Int32Array(nodes)
    this.reached = new Float64Array(nodes)
    this.sent = new Int32Array(channels.length)
    this.taken = new Int32Array(channels.length)
    this.queued = new Uint8Array(channels.length)
    ranks.forEach(({ plan }, rank) => {
      for (const items of plan.streams) {
        if (items.length === 0) continue
        this.cursorRank.push(rank)
        this.cursorItems.push(items)
      }
    })
    const cursors = this.cursorRank.length
    this.position = new Int32Array(cursors)
    this.clock = new Float64Array(cursors)
    this.parked = new Int32Array(cursors).fill(-1)
    this.waiter = new Int32Array(nodes).fill(-1)
    this.nextWaiter = new Int32Array(cursors)
    const activities = nodes + 2 * messages + meetings.length
    this.activities = new Int32Array(activities)
    this.heap = turns ? new IntHeap(nodes + channels.length + meetings.length) : undefined
    this.resourceBefore = turns ? new Int32Array(activities).fill(-1) : undefined
    this.resourceFree = new Float64Array(resourceCount * ranks.length)
    this.resourceLast = new Int32Array(resourceCount * ranks.length).fill(-1)
    this.streamResource = program.streams.map(({ resource }) => resourceKinds[resource])
  }

  play(): Times {
    const { runnable, heap, cursorRank } = this
    for (let cursor = cursorRank.length - 1; cursor >= 0; cursor--) runnable.push(cursor)
    for (;;) {
      for (let cursor = runnable.pop(); cursor !== undefined; cursor = runnable.pop()) this.advance(cursor)
      const item = heap?.pop() ?? -1
      if (item < 0) break
      this.takeTurn(item)
    }
    this.requireFinished()
    const { network, start, end, sendStart, sendEnd, arrival, received, meetingStart } = this
    let stepSeconds = 0
    for (const time of end) if (time > stepSeconds) stepSeconds = time
    const order: Order = {
      activities: this.activities.subarray(0, this.decided),
      resourceBefore: this.resourceBefore,
    }
    const times = { network, stepSeconds, start, end, sendStart, sendEnd, arrival, received, meetingStart }
    const graph = new StreamGraph(times, order)
    return { ...times, criticalPath: () => graph.criticalPath(), totalSlack: () => graph.totalSlack() }
  }

  /** Goes on with a stream as far as it can. */
  private advance(cursor: number): void {
    const { start, end, clock, position, parked, activities } = this
    const rank = this.network.ranks[this.cursorRank[cursor]!]!
    const { plan, base } = rank
    const { kind, deps, depStart, cost } = plan
    const items = this.cursorItems[cursor]!
    if (parked[cursor]! >= 0) {
      clock[cursor] = end[parked[cursor]!]!
      parked[cursor] = -1
    }
    let at = position[cursor]!
    let now = clock[cursor]!
    for (; at < items.length; at++) {
      const instruction = items[at]!
      const node = base + instruction
      let ready = now
      for (let place = depStart[instruction]!; place < depStart[instruction + 1]!; place++) {
        const time = end[base + deps[place]!]!
        if (time < 0) {
          position[cursor] = at
          clock[cursor] = now
          this.wait(cursor, base + deps[place]!)
          return
        }
        if (time > ready) ready = time
      }
      start[node] = ready
      if (kind[instruction] === columnKinds.exchange) {
        activities[this.decided++] = node
        this.post(rank, instruction, ready)
        now = ready
        continue
      }
      if (kind[instruction] !== columnKinds.collective && this.heap === undefined) {
        now = ready + cost[instruction]!
        end[node] = now
        activities[this.decided++] = node
        if (this.waiter[node]! >= 0) this.wake(node)
        continue
      }
      parked[cursor] = node
      position[cursor] = at + 1
      this.wait(cursor, node)
      if (kind[instruction] === columnKinds.collective) this.arrive(rank, instruction, ready)
      else this.heap!.push(node, ready)
      return
    }
    position[cursor] = at
    clock[cursor] = now
  }

  private wait(cursor: number, node: number): void {
    this.nextWaiter[cursor] = this.waiter[node]!
    this.waiter[node] = cursor
  }

  private wake(node: number): void {
    for (let cursor = this.waiter[node]!; cursor >= 0; cursor = this.nextWaiter[cursor]!)
      this.runnable.push(cursor)
    this.waiter[node] = -1
  }

  private post(rank: SimulatedRank, instruction: number, time: number): void {
    const { plan, base, messages } = rank
    const first = plan.partStart[instruction]!
    const last = plan.partStart[instruction + 1]!
    const node = base + instruction
    this.left[node] = last - first
    if (first === last) {
      this.end[node] = time
      this.wake(node)
    }
    // All are posted together.
    for (let part = first; part < last; part++)
      (plan.partIsSend[part] === 1 ? this.sendPost : this.recvPost)[messages[part]!] = time
    for (let part = first; part < last; part++) this.moveMessages(this.network.channelOf[messages[part]!]!)
  }

  private moveMessages(channel: number): void {
    const { network, sent, taken, sendPost, recvPost, received, arrival, heap } = this
    const { first, count } = network.channels[channel]!
    const slots = network.program.channelSlots
    for (;;) {
      let moved = false
      const next = first + sent[channel]!
      const isFree = sent[channel]! - slots < taken[channel]!
      if (sent[channel]! < count && sendPost[next]! >= 0 && isFree && this.queued[channel] === 0) {
        let ready = sendPost[next]!
        if (sent[channel]! > 0) ready = Math.max(ready, this.sendEnd[next - 1]!)
        if (sent[channel]! >= slots) ready = Math.max(ready, received[next - slots]!)
        if (heap === undefined || network.busy[next] === 0) this.send(channel, ready)
        else {
          this.queued[channel] = 1
          heap.push(network.nodes + channel, ready)
        }
        moved = true
      }
      const due = first + taken[channel]!
      if (taken[channel]! < sent[channel]! && recvPost[due]! >= 0) {
        let ready = Math.max(recvPost[due]!, arrival[due]!)
        if (taken[channel]! > 0) ready = Math.max(ready, received[due - 1]!)
        received[due] = ready + network.receive[due]!
        taken[channel]!++
        this.activities[this.decided++] = network.nodes + network.sender.length + due
        this.complete(network.receiver[due]!, received[due]!)
        moved = true
      }
      if (!moved) return
    }
  }

  private send(channel: number, ready: number): void {
    const { network, sent } = this
    const message = network.channels[channel]!.first + sent[channel]!
    const end = ready + network.busy[message]!
    this.sendStart[message] = ready
    this.sendEnd[message] = end
    this.arrival[message] = end + network.latency[message]!
    sent[channel]!++
    this.activities[this.decided++] = network.nodes + message
    this.complete(network.sender[message]!, end)
  }

  /** One part of an exchange is complete. */
  private complete(node: number, time: number): void {
    const { start, end, left, reached } = this
    reached[node] = Math.max(reached[node]!, start[node]!, time)
    if (--left[node]! > 0) return
    end[node] = reached[node]!
    this.wake(node)
  }

  private arrive(rank: SimulatedRank, instruction: number, time: number): void {
    const meeting = rank.meetings.get(instruction)!
    const { expected } = this.network.meetings[meeting]!
    this.meetingStart[meeting] = Math.max(this.meetingStart[meeting]!, time)
    if (++this.arrived[meeting]! < expected) return
    const { heap, network } = this
    const ready = this.meetingStart[meeting]!
    if (heap === undefined) this.meet(meeting, ready)
    else heap.push(network.nodes + network.channels.length + meeting, ready)
  }

  private meet(meeting: number, time: number): void {
    const { network, activities } = this
    const { members, seconds } = network.meetings[meeting]!
    this.meetingStart[meeting] = time
    activities[this.decided++] = network.nodes + 2 * network.sender.length + meeting
    for (const { rank, instruction } of members) {
      const node = network.ranks[rank]!.base + instruction
      this.end[node] = time + seconds
      activities[this.decided++] = node
      this.wake(node)
    }
  }

  private takeTurn(item: number): void {
    const { network, heap } = this
    const { nodes, channels, meetings } = network
    const ready = heap!.time(item)
    if (item < nodes) {
      const index = rankOf(network, item)
      const rank = network.ranks[index]!
      const instruction = item - rank.base
      const lane = resourceCount * index + this.streamResource[rank.plan.stream[instruction]!]!
      const start = this.occupy([lane], ready, rank.plan.cost[instruction]!, item)
      this.start[item] = start
      this.end[item] = start + rank.plan.cost[instruction]!
      this.activities[this.decided++] = item
      this.wake(item)
    } else if (item < nodes + channels.length) {
      const channel = item - nodes
      const { from, stream, first } = channels[channel]!
      const message = first + this.sent[channel]!
      const lane = resourceCount * from + this.streamResource[stream]!
      const start = this.occupy([lane], ready, network.busy[message]!, nodes + message)
      this.queued[channel] = 0
      this.send(channel, start)
      this.moveMessages(channel)
    } else {
      const meeting = item - nodes - channels.length
      const { members, seconds } = meetings[meeting]!
      const lanes = members.map(({ rank, instruction }) => {
        const stream = network.ranks[rank]!.plan.stream[instruction]!
        return resourceCount * rank + this.streamResource[stream]!
      })
      const activity = nodes + 2 * network.sender.length + meeting
      this.meet(meeting, this.occupy(lanes, ready, seconds, activity))
    }
  }

  /** From when on the resources are had, which are then taken for so long. */
  private occupy(lanes: readonly number[], ready: number, seconds: number, activity: number): number {
    const { resourceFree, resourceLast, resourceBefore } = this
    let start = ready
    // What takes no time takes no turn either.
    if (seconds === 0) return start
    for (const lane of lanes)
      if (resourceFree[lane]! > start) {
        start = resourceFree[lane]!
        resourceBefore![activity] = resourceLast[lane]!
      }
    for (const lane of lanes) {
      resourceFree[lane] = start + seconds
      resourceLast[lane] = activity
    }
    return start
  }

  private requireFinished(): void {
    const stuck = new Map<number, number>()
    this.position.forEach((position, cursor) => {
      const items = this.cursorItems[cursor]!
      const rank = this.cursorRank[cursor]!
      const parked = this.parked[cursor]!
      const { base } = this.network.ranks[rank]!
      const instruction = parked >= 0 ? parked - base : items[position]
      const known = stuck.get(rank)
      if (instruction !== undefined && (known === undefined || instruction < known))
        stuck.set(rank, instruction)
    })
    // Exchanges that were posted and never completed hold up nobody but the end of the step.
    this.left.forEach((parts, node) => {
      if (parts === 0) return
      const rank = rankOf(this.network, node)
      if (!stuck.has(rank)) stuck.set(rank, node - this.network.ranks[rank]!.base)
    })
    if (stuck.size > 0) throw deadlockError(this.network, stuck, this.end, this.start)
  }
}
