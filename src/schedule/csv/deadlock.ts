import { internalError } from '../../base/index.ts'
import { describeCycle, findCycle } from '../cycle.ts'
import { drawGrid } from '../grid.ts'
import type { BlockedActor } from '../progress.ts'
import type { Schedule } from '../types.ts'
import type { ScheduleFinding } from '../validate.ts'
import { formatCsvEntry } from './letters.ts'
import { channelsOf, type Message } from './messages.ts'

/** A send that waits until its receiver is there, or so many sends of one actor to another that wait for nobody. */
export type Sends = 'rendezvous' | number

/** One end of a message in an actor's list. */
interface End {
  readonly message: Message
  readonly sends: boolean
  /** Number of the message among those of the same two actors. */
  readonly number: number
  readonly channel: Channel
}

/** One direction between two actors. */
interface Channel {
  readonly messages: readonly Message[]
  sent: number
  received: number
}

/**
 * Plays the sends and receives of complete lists in the order of each list, computations taking no time. Receives wait
 * for their message. `messages` must have both ends in place and be received in the order in which they are sent.
 */
export function findDeadlock(
  schedule: Schedule,
  messages: readonly Message[],
  sends: Sends,
): ScheduleFinding | undefined {
  const blocked = play(schedule, messages, sends)
  if (blocked.length === 0) return undefined
  const cycle = findCycle(blocked)
  const at = cycle[0]!
  const how =
    sends === 'rendezvous'
      ? 'where a send waits for its receive'
      : sends === Number.POSITIVE_INFINITY
        ? 'even where no send ever waits'
        : `with ${sends} buffered ${sends === 1 ? 'send' : 'sends'} from each actor to each other`
  return {
    code: 'SCHEDULE_DEADLOCK',
    message: `${how}, ${describeCycle(schedule, cycle, formatCsvEntry)}`,
    action: at.action,
    actor: at.actor,
    index: at.index,
    waitsFor: at.waitsFor,
    cycle,
    sends: [sends === 'rendezvous' ? 'rendezvous' : 'buffered'],
    grid: drawGrid(schedule, cycle, formatCsvEntry),
  }
}

/** The fewest buffered sends from each actor to each other with which the schedule runs; undefined if none suffice. */
export function fewestBuffers(schedule: Schedule, messages: readonly Message[]): number | undefined {
  const runs = (buffers: number): boolean => play(schedule, messages, buffers).length === 0
  if (!runs(Number.POSITIVE_INFINITY)) return undefined
  let enough = 1
  while (!runs(enough)) enough *= 2
  let few = enough >> 1
  while (enough - few > 1) {
    const middle = (few + enough) >> 1
    if (runs(middle)) enough = middle
    else few = middle
  }
  return enough
}

function play(schedule: Schedule, messages: readonly Message[], sends: Sends): BlockedActor[] {
  const lists: End[][] = schedule.actors.map(() => [])
  for (const sequence of channelsOf(messages, schedule.actors.length)) {
    const channel: Channel = { messages: sequence, sent: 0, received: 0 }
    for (const [number, message] of sequence.entries()) {
      lists[message.from]!.push({ message, sends: true, number, channel })
      lists[message.to]!.push({ message, sends: false, number, channel })
    }
  }
  for (const list of lists) list.sort((a, b) => indexOf(a) - indexOf(b))

  const position = lists.map(() => 0)
  const here = (actor: number): End | undefined => lists[actor]![position[actor]!]
  const runnable = lists.map((_, actor) => actor)
  while (runnable.length > 0) {
    const actor = runnable.pop()!
    for (let end = here(actor); end !== undefined; end = here(actor)) {
      const { message, number, channel } = end
      const peer = end.sends ? message.to : message.from
      if (sends === 'rendezvous') {
        // Both ends go on together, or the one that is early waits.
        if (here(peer)?.message !== message) break
        position[peer]!++
      } else if (end.sends ? number - channel.received >= sends : number >= channel.sent) break
      if (end.sends) channel.sent = number + 1
      else channel.received = number + 1
      position[actor]!++
      runnable.push(peer)
    }
  }
  return lists.flatMap((_, actor) => {
    const end = here(actor)
    return end === undefined ? [] : [blockedAt(end, sends)]
  })
}

function indexOf({ message, sends }: End): number {
  return (sends ? message.sent : message.received)!.index
}

function blockedAt(end: End, sends: Sends): BlockedActor {
  const { send, receive, from, to, sent, received } = end.message
  if (!end.sends) return { actor: to, index: received!.index, action: receive, waitsFor: send, place: sent }
  // A buffered send waits for room: for the receive that empties the oldest place.
  const other = sends === 'rendezvous' ? end.message : end.channel.messages[end.number - sends]
  if (other === undefined) throw internalError('a buffered send waits with room to spare')
  return { actor: from, index: sent!.index, action: send, waitsFor: other.receive, place: other.received }
}
