import type { ActionPlace } from '../dependences.ts'
import { drawGrid } from '../grid.ts'
import type { Action, Schedule } from '../types.ts'
import { type ScheduleFinding, validateSchedule } from '../validate.ts'
import { fewestBuffers, findDeadlock, type Sends } from './deadlock.ts'
import { type CsvLetters, computePart, formatCsvEntry, isCommunication, isOfStage } from './letters.ts'
import { channelsOf, type Message, messagesOf, PlaceIndex } from './messages.ts'
import { findStageActions } from './windows.ts'

export interface VerifyCommunicationOptions {
  /** Files of 2024 have no REDUCE_GRAD. Default `current`. */
  readonly letters?: CsvLetters
  /** Most findings that are made. Default 100. */
  readonly limit?: number
}

/**
 * Everything that is wrong with a schedule of a chain that says its communication (`ScheduleCsv.communication`, or what
 * `inferCommunication` gives); empty when
 *
 * - its computations are valid,
 * - each result that is needed on another actor is sent once, after it is made, and received once, before it is used,
 * - each actor receives from each other in the order in which that one sends,
 * - parameters are gathered around every use, where the schedule gathers any, and gradients are reduced once, after the
 *   last of them,
 * - no actors wait for each other for ever, even where a send waits for its receive. If they do, what follows says how
 *   it is with buffered sends.
 */
export function verifyCommunication(
  schedule: Schedule,
  options: VerifyCommunicationOptions = {},
): readonly ScheduleFinding[] {
  const limit = options.limit ?? 100
  const range = findRange(schedule)
  if (range.length > 0) return range.slice(0, limit)
  const compute = validateSchedule(computePart(schedule), { limit })
  if (compute.length > 0)
    return compute.map((finding) => ({ hint: 'places and steps count computations only', ...finding }))
  const { found, messages } = findTransfers(schedule, limit)
  if (found.length === 0) found.push(...findDisorder(schedule, messages))
  if (found.length === 0) found.push(...findDeadlocks(schedule, messages))
  return [...found, ...findStageActions(schedule, options.letters ?? 'current', limit)].slice(0, limit)
}

/** Who waits for whom for ever, of transfers that match and arrive in order; gathers and reductions wait for nobody. */
function findDeadlocks(schedule: Schedule, messages: readonly Message[]): ScheduleFinding[] {
  const rendezvous = findDeadlock(schedule, messages, 'rendezvous')
  if (rendezvous === undefined) return []
  const buffers = fewestBuffers(schedule, messages)
  if (buffers === undefined) return [rendezvous, findDeadlock(schedule, messages, Number.POSITIVE_INFINITY)!]
  return [
    {
      ...rendezvous,
      hint: `with ${buffers} buffered ${buffers === 1 ? 'send' : 'sends'} from each actor to each other it runs; or receive earlier`,
    },
  ]
}

function findRange({ stages, microbatches, actors }: Schedule): ScheduleFinding[] {
  const inRange = (value: number, size: number): boolean =>
    Number.isInteger(value) && value >= 0 && value < size
  return actors.flatMap((entries, actor) =>
    entries.flatMap((entry, index) =>
      !isCommunication(entry) || (inRange(entry.stage, stages) && inRange(entry.microbatch, microbatches))
        ? []
        : [
            {
              ...at(entry, { actor, index }),
              code: 'SCHEDULE_RANGE' as const,
              message: `${formatCsvEntry(entry)} at place ${index} of actor ${actor}: there are ${stages} stages and ${microbatches} micro-batches`,
            },
          ],
    ),
  )
}

/**
 * The circle in which actors wait for each other under one kind of sends; undefined if there is none. `schedule` must
 * otherwise be as `verifyCommunication` demands.
 */
export function findTransferDeadlock(schedule: Schedule, sends: Sends): ScheduleFinding | undefined {
  return findDeadlock(schedule, findTransfers(schedule, 0).messages, sends)
}

/** Each transfer sent and received, once, where its result is there and before it is used; and no others. */
function findTransfers(
  schedule: Schedule,
  limit: number,
): { readonly found: ScheduleFinding[]; readonly messages: readonly Message[] } {
  const places = new PlaceIndex(schedule, ({ phase }) => !isOfStage(phase))
  const messages = messagesOf(schedule, places)
  const found: ScheduleFinding[] = []
  const add = (finding: () => ScheduleFinding): void => {
    if (found.length < limit) found.push(finding())
  }
  for (const { action, first, again } of places.repeated)
    add(() => ({
      ...at(action, again),
      code: 'SCHEDULE_DUPLICATE',
      message: `${formatCsvEntry(action)} is there twice: at place ${first.index} of actor ${first.actor} and at place ${again.index} of actor ${again.actor}`,
    }))
  const expected = new Set<ActionPlace>()
  for (const message of messages) {
    const { send, receive, producer, from, to, sent, received } = message
    for (const [action, actor, place, other, otherActor, otherPlace] of [
      [send, from, sent, receive, to, received],
      [receive, to, received, send, from, sent],
    ] as const) {
      if (place !== undefined) expected.add(place)
      else
        add(() => ({
          code: 'SCHEDULE_MISSING',
          message: `${formatCsvEntry(action)} is missing from actor ${actor}${otherPlace === undefined ? '' : `; ${formatCsvEntry(other)} on actor ${otherActor} (place ${otherPlace.index}) waits for it`}`,
          action,
          actor,
        }))
    }
    const made = places.find(producer)!
    if (sent?.actor === from && sent.index < made.index)
      add(() => early(schedule, send, sent, producer, made))
    const user = consumerOf(places, receive)
    if (received?.actor === to && user !== undefined && user.place.index < received.index)
      add(() => early(schedule, user.action, user.place, receive, received))
  }
  for (const [actor, entries] of schedule.actors.entries())
    for (const [index, entry] of entries.entries()) {
      if (!isCommunication(entry) || isOfStage(entry.phase)) continue
      const place = places.find(entry)!
      if (expected.has(place)) {
        if (schedule.placement[entry.stage] !== actor)
          add(() => ({
            ...at(entry, { actor, index }),
            code: 'SCHEDULE_ACTOR',
            message: `${formatCsvEntry(entry)} is on actor ${actor} (place ${index}), but stage ${entry.stage} is on actor ${schedule.placement[entry.stage]}`,
          }))
      } else if (place.index === index && place.actor === actor)
        add(() => ({
          ...at(entry, place),
          code: 'SCHEDULE_EXTRA',
          message: `${formatCsvEntry(entry)} at place ${index} of actor ${actor} ${whyExtra(schedule, entry)}`,
        }))
    }
  return { found, messages }
}

function consumerOf(
  places: PlaceIndex,
  receive: Action,
): { readonly action: Action; readonly place: ActionPlace } | undefined {
  for (const phase of receive.phase === 'RECV_F' ? ['F'] : ['B', 'I']) {
    const action = { ...receive, phase }
    const place = places.find(action)
    if (place !== undefined) return { action, place }
  }
  return undefined
}

function whyExtra({ stages, placement }: Schedule, { phase, stage }: Action): string {
  const other = phase === 'SEND_F' || phase === 'RECV_B' ? stage + 1 : stage - 1
  if (other < 0) return 'has no other end: stage 0 is the first'
  if (other >= stages) return `has no other end: stage ${stage} is the last`
  if (placement[other] === placement[stage]) return `has no other end: stage ${other} is on the same actor`
  return 'carries nothing'
}

/** Messages between two actors that are received in another order than they are sent. */
function findDisorder(schedule: Schedule, messages: readonly Message[]): ScheduleFinding[] {
  const found: ScheduleFinding[] = []
  for (const sent of channelsOf(messages, schedule.actors.length)) {
    const received = sent.toSorted((a, b) => a.received!.index - b.received!.index)
    const wrong = sent.findIndex((message, number) => message !== received[number])
    if (wrong < 0) continue
    const { send, receive, from, to } = sent[wrong]!
    const instead = received[wrong]!
    const place = instead.received!
    found.push({
      ...at(instead.receive, place),
      code: 'SCHEDULE_FIFO',
      message: `message ${wrong} from actor ${from} to actor ${to} is sent by ${formatCsvEntry(send)} (place ${sent[wrong]!.sent!.index}), but received by ${formatCsvEntry(instead.receive)} at place ${place.index}`,
      waitsFor: instead.send,
      hint: `messages between two actors arrive in the order of their sends: ${formatCsvEntry(receive)} is due there`,
      grid: drawGrid(
        schedule,
        [{ ...place, action: instead.receive, waitsFor: instead.send, place: instead.sent }],
        formatCsvEntry,
      ),
    })
  }
  return found
}

/** An action that stands before what it needs on the same actor. */
function early(
  schedule: Schedule,
  action: Action,
  place: ActionPlace,
  waitsFor: Action,
  later: ActionPlace,
): ScheduleFinding {
  return {
    ...at(action, place),
    code: 'SCHEDULE_ORDER',
    message: `${formatCsvEntry(action)} at place ${place.index} of actor ${place.actor} needs ${formatCsvEntry(waitsFor)}, which comes later, at place ${later.index}`,
    waitsFor,
    grid: drawGrid(schedule, [{ ...place, action, waitsFor, place: later }], formatCsvEntry),
  }
}

function at(
  action: Action,
  { actor, index }: ActionPlace,
): Pick<ScheduleFinding, 'action' | 'actor' | 'index'> {
  return { action, actor, index }
}
