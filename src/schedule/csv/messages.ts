import { entryActions } from '../actions.ts'
import type { ActionPlace } from '../dependences.ts'
import type { Action, Schedule } from '../types.ts'
import { type Transfer, transferOf } from './infer.ts'

/** A transfer with the places of its two ends, and of the actions that give and take what it carries. */
export interface Message extends Transfer {
  readonly from: number
  readonly to: number
  readonly producer: Action
  readonly sent: ActionPlace | undefined
  readonly received: ActionPlace | undefined
}

/** Places of actions by what they are; of repeated ones the first, the others are in `repeated`. */
export class PlaceIndex {
  readonly repeated: { readonly action: Action; readonly first: ActionPlace; readonly again: ActionPlace }[] =
    []
  private readonly places = new Map<string, Map<number, ActionPlace>>()
  private readonly microbatches: number

  constructor(schedule: Schedule, counts: (action: Action) => boolean) {
    this.microbatches = schedule.microbatches
    for (const [actor, entries] of schedule.actors.entries())
      for (const [index, entry] of entries.entries())
        for (const action of entryActions(entry)) {
          if (!counts(action)) continue
          let ofLetter = this.places.get(action.phase)
          if (ofLetter === undefined) {
            ofLetter = new Map()
            this.places.set(action.phase, ofLetter)
          }
          const key = action.stage * this.microbatches + action.microbatch
          const first = ofLetter.get(key)
          if (first === undefined) ofLetter.set(key, { actor, index })
          else this.repeated.push({ action, first, again: { actor, index } })
        }
  }

  find({ phase, stage, microbatch }: Action): ActionPlace | undefined {
    return this.places.get(phase)?.get(stage * this.microbatches + microbatch)
  }
}

/** Every transfer that the computations ask for. */
export function messagesOf(schedule: Schedule, places: PlaceIndex): Message[] {
  const messages: Message[] = []
  for (const entries of schedule.actors)
    for (const entry of entries)
      for (const producer of entryActions(entry)) {
        const transfer = transferOf(producer, schedule)
        if (transfer === undefined) continue
        messages.push({
          ...transfer,
          producer,
          from: schedule.placement[transfer.send.stage]!,
          to: schedule.placement[transfer.receive.stage]!,
          sent: places.find(transfer.send),
          received: places.find(transfer.receive),
        })
      }
  return messages
}

/** The messages of each two actors that one sends the other, in the order of their sends. Both ends must be in place. */
export function channelsOf(messages: readonly Message[], actors: number): readonly (readonly Message[])[] {
  const channels = new Map<number, Message[]>()
  for (const message of messages) {
    const key = message.from * actors + message.to
    const channel = channels.get(key)
    if (channel === undefined) channels.set(key, [message])
    else channel.push(message)
  }
  for (const channel of channels.values()) channel.sort((a, b) => a.sent!.index - b.sent!.index)
  return [...channels.values()]
}
