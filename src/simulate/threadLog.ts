import type { CriticalStep, Network } from './types.ts'

const kinds = ['compute', 'move', 'collective', 'send', 'receive'] as const

/** What threads did, in the order in which it was decided, and what each action waited for. Columns, as there are many. */
export class ThreadLog {
  private readonly network: Network
  private count = 0
  private readonly rank: Int32Array
  private readonly node: Int32Array
  private readonly message: Int32Array
  private readonly kind: Uint8Array
  private readonly start: Float64Array
  private readonly end: Float64Array
  /** The action before it on its thread; -1 for none. */
  private readonly previous: Int32Array
  /** The action of another thread that made it go on, where it slept before; -1 for none. */
  private readonly wokenBy: Int32Array
  /** First entry of the collective that it is a member's part of, else its own. */
  private readonly first: Int32Array
  private readonly last: Int32Array

  constructor(network: Network) {
    this.network = network
    // Copies, and at most one action for each instruction.
    const most = network.nodes + 2 * network.sender.length
    this.rank = new Int32Array(most)
    this.node = new Int32Array(most)
    this.message = new Int32Array(most)
    this.kind = new Uint8Array(most)
    this.start = new Float64Array(most)
    this.end = new Float64Array(most)
    this.previous = new Int32Array(most)
    this.wokenBy = new Int32Array(most)
    this.first = new Int32Array(most)
    this.last = new Int32Array(network.ranks.length).fill(-1)
  }

  /** `message`: of a copy; else -1. */
  add(
    rank: number,
    node: number,
    message: number,
    kind: (typeof kinds)[number],
    start: number,
    end: number,
    wokenBy: number,
  ): number {
    const index = this.count++
    this.rank[index] = rank
    this.node[index] = node
    this.message[index] = message
    this.kind[index] = kinds.indexOf(kind)
    this.start[index] = start
    this.end[index] = end
    this.previous[index] = this.last[rank]!
    this.wokenBy[index] = wokenBy
    this.first[index] = index
    this.last[rank] = index
    return index
  }

  /** The last so many entries are one collective. */
  join(members: number): void {
    this.first.fill(this.count - members, this.count - members, this.count)
  }

  /** The last action of a thread; -1 for none. */
  latest(rank: number): number {
    return this.last[rank]!
  }

  private kindOf(index: number): (typeof kinds)[number] {
    return kinds[this.kind[index]!]!
  }

  /** From the first of the entries of a collective to behind the last. */
  private membersEnd(first: number): number {
    let end = first
    while (end < this.count && this.first[end] === first) end++
    return end
  }

  criticalPath(stepSeconds: number): CriticalStep[] {
    const { network, last, start, end, previous, rank, node } = this
    const steps: CriticalStep[] = []
    let at = last.find((index) => index >= 0 && end[index] === stepSeconds) ?? -1
    let reached = stepSeconds
    while (at >= 0) {
      const own = network.ranks[rank[at]!]!
      const done = this.kindOf(at)
      const kind = done === 'send' || done === 'receive' ? 'transfer' : done
      const before = this.before(at)
      // What lies between an action and the one that woke its thread is the time that waking takes.
      const begun = before < 0 ? 0 : Math.min(start[at]!, end[before]!)
      const stays = before >= 0 && before === previous[at]
      const reason = before < 0 ? 'start' : stays ? 'order' : kind === 'collective' ? 'collective' : 'data'
      const instruction = node[at]! - own.base
      if (reached > begun)
        steps.push({
          rank: own.rank,
          instruction,
          kind,
          start: begun,
          seconds: reached - begun,
          ...(kind === 'transfer' ? { message: this.message[at]! } : {}),
          reason,
        })
      reached = begun
      at = before
    }
    return steps.reverse()
  }

  /** The action whose end decided when this one began. */
  private before(at: number): number {
    const { previous, end, start, wokenBy, first } = this
    if (this.kindOf(at) === 'collective') {
      // The member that came last, or the one that had to wake the others.
      const wake = this.network.costs.wake ?? 0
      const behind = this.membersEnd(first[at]!)
      let latest = -1
      let time = Number.NEGATIVE_INFINITY
      const consider = (index: number, decided: number): void => {
        if (index < 0 || decided < time) return
        latest = index
        time = decided
      }
      for (let member = first[at]!; member < behind; member++)
        if (previous[member]! >= 0) consider(previous[member]!, end[previous[member]!]!)
      for (let member = first[at]!; member < behind; member++)
        if (wokenBy[member]! >= 0) consider(wokenBy[member]!, end[wokenBy[member]!]! + wake)
      return latest
    }
    if (previous[at]! >= 0 && end[previous[at]!] === start[at]) return previous[at]!
    return wokenBy[at]! >= 0 ? wokenBy[at]! : previous[at]!
  }

  totalSlack(stepSeconds: number): Float64Array {
    const { network, count, start, end, previous, wokenBy, first, message } = this
    const { sender, channelOf, channels, program, costs } = network
    const wake = costs.wake ?? 0
    const late = new Float64Array(count).fill(stepSeconds)
    const sent = new Int32Array(sender.length).fill(-1)
    const received = new Int32Array(sender.length).fill(-1)
    for (let at = 0; at < count; at++) {
      if (this.kindOf(at) === 'send') sent[message[at]!] = at
      if (this.kindOf(at) === 'receive') received[message[at]!] = at
    }
    const lower = (index: number, time: number): void => {
      if (index >= 0 && time < late[index]!) late[index] = time
    }
    for (let at = count - 1; at >= 0; at--) {
      const kind = this.kindOf(at)
      const seconds = end[at]! - start[at]!
      if (kind === 'collective') {
        // Once, when all members have been seen.
        if (at > first[at]!) continue
        const behind = this.membersEnd(at)
        let least = stepSeconds
        for (let member = at; member < behind; member++) least = Math.min(least, late[member]!)
        for (let member = at; member < behind; member++) {
          lower(previous[member]!, least - seconds)
          lower(wokenBy[member]!, least - seconds - wake)
        }
        continue
      }
      const begin = late[at]! - seconds
      lower(previous[at]!, begin)
      lower(wokenBy[at]!, begin - wake)
      if (kind === 'receive') lower(sent[message[at]!]!, begin)
      if (kind === 'send') {
        const slot = message[at]! - program.channelSlots
        if (slot >= channels[channelOf[message[at]!]!]!.first) lower(received[slot]!, begin)
      }
    }
    return Float64Array.from(sent, (index) => late[index]! - end[index]!)
  }
}
