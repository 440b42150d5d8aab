import { median } from '../../base/index.ts'
import type { CollectiveOperation, Instruction, Program, ValueRef } from '../../program/index.ts'
import type { LineCost, MeasuredCollective, MeasuredTable } from '../../simulate/index.ts'
import { handmadeProgram, productTask, RankList, streams } from './handmade.ts'
import { fitLine, type Point } from './lines.ts'
import type { CollectiveClass, Payloads } from './payloads.ts'

/** What one step of a program took, by rank and instruction, in seconds. */
export type StepTimes = readonly ReadonlyMap<number, { readonly start: number; readonly end: number }>[]

/** A program made to find out what something takes, and how its steps tell. */
export interface Experiment<T> {
  readonly program: Program
  readonly note: (times: StepTimes) => void
  readonly result: () => T
}

const anchorWeight = 1e-3
/** How often a step goes through the list; the first time is not counted, for ranks come to it as they wake. */
const turns = 8
const productRows = 512

/** Copies of messages into and out of channels, and how long a rank that sleeps takes to go on. */
export function transferExperiment(
  messages: Payloads['messages'],
): Experiment<{ readonly send: LineCost; readonly receive: LineCost; readonly wake: number }> {
  const [sender, receiver] = [new RankList(), new RankList()]
  const lists = [sender, receiver]
  let ids = 0
  const part = (
    direction: 'send' | 'recv',
    transfer: number,
    value: ValueRef,
    peer: number,
  ): Instruction => ({
    kind: 'exchange',
    stream: streams.transfer,
    parts: [{ direction, transfer, value, peer }],
  })
  const meetingPlaces = lists.map((list) => list.buffer(1, 'f32'))
  const meet = (): void => {
    const collective = ids++
    lists.forEach((list, rank) => {
      list.code.push(reduction(collective, meetingPlaces[rank]!))
    })
  }
  const operandsOf = messages.map(({ bytes }) => {
    const elements = Math.max(1, Math.floor(bytes / 4))
    return { sent: sender.buffer(elements, 'f32'), received: receiver.buffer(elements, 'f32') }
  })
  const places = Array.from({ length: turns }, () =>
    operandsOf.map(({ sent, received }, message) => {
      const transfer = ids++
      const send = sender.code.length
      sender.code.push(part('send', transfer, sent, 1))
      // The message has come when the receive is posted.
      meet()
      const receive = receiver.code.length
      receiver.code.push(part('recv', transfer, received, 0))
      meet()
      return { message, send, receive }
    }),
  )
  // Long enough for the other to fall asleep.
  const operands = [receiver.matrix(productRows), receiver.matrix(productRows), receiver.matrix(productRows)]
  receiver.code.push({
    kind: 'run',
    stream: streams.compute,
    task: 0,
    reads: [{ value: operands[0]! }, { value: operands[1]! }],
    writes: [{ value: operands[2]!, mode: 'set' }],
  })
  const last = ids++
  const wakes = { send: receiver.code.length, receive: sender.code.length }
  receiver.code.push(part('send', last, receiver.buffer(16, 'f32'), 0))
  sender.code.push(part('recv', last, sender.buffer(16, 'f32'), 1))
  const sends = messages.map((): number[] => [])
  const receives = messages.map((): number[] => [])
  const delays: number[] = []
  return {
    program: handmadeProgram(lists, [productTask(productRows)], 2),
    note: ([from, to]) => {
      for (const { message, send, receive } of places.slice(1).flat()) {
        push(sends[message]!, from?.get(send))
        push(receives[message]!, to?.get(receive))
      }
      const [slept, woke] = [from?.get(wakes.receive), to?.get(wakes.send)]
      if (slept !== undefined && woke !== undefined) delays.push(Math.max(0, slept.end - woke.end))
    },
    result: () => {
      const line = (times: readonly number[][]): LineCost =>
        fitLine(
          messages.map(({ bytes, count }, index) => ({
            bytes,
            seconds: median(times[index]!),
            weight: count + anchorWeight,
          })),
        )
      return { send: line(sends), receive: line(receives), wake: median(delays) }
    },
  }
}

/** What a member takes for a collective from when the last has come. All classes are among as many members. */
export function collectiveExperiment(
  classes: readonly CollectiveClass[],
  members: number,
): Experiment<readonly (readonly [CollectiveOperation, MeasuredCollective])[]> {
  const lists = Array.from({ length: members }, () => new RankList())
  classes.forEach((one, index) => {
    for (const list of lists) {
      const parts = one.parts.map(({ source, result, mode, inPlace }) => {
        const from = list.buffer(source, one.dtype)
        const to = inPlace ? from : list.buffer(result, one.dtype)
        return { source: { value: from }, result: { value: to, mode } }
      })
      const { operation, reduce } = one
      const reduces = operation === 'allReduce' || operation === 'reduceScatter' || operation === 'reduce'
      const rooted = ['broadcast', 'reduce', 'gather', 'scatter'].includes(operation)
      list.code.push({
        kind: 'collective',
        stream: streams.reduce,
        collective: index,
        operation,
        group: 0,
        parts,
        ...(reduces ? { reduce } : {}),
        ...(rooted ? { root: 0 } : {}),
        ...(operation === 'permute' ? { shift: 1 } : {}),
      })
    }
  })
  for (const list of lists) list.repeat(turns)
  const seconds = classes.map((): number[] => [])
  return {
    program: handmadeProgram(lists, [], 1),
    note: (times) => {
      for (let place = classes.length; place < turns * classes.length; place++) {
        const spans = times.flatMap((rank) => rank.get(place) ?? [])
        if (spans.length < members) continue
        const begun = Math.max(...spans.map(({ start }) => start))
        seconds[place % classes.length]!.push(Math.max(...spans.map(({ end }) => end)) - begun)
      }
    },
    result: () => {
      const points = new Map<CollectiveOperation, Point[]>()
      classes.forEach(({ operation, payloadBytes, count }, index) => {
        const own = points.get(operation) ?? []
        points.set(operation, own)
        own.push({ bytes: payloadBytes, seconds: median(seconds[index]!), weight: count + anchorWeight })
      })
      return [...points].map(([operation, own]) => [operation, { members, ...fitLine(own) }])
    },
  }
}

/** Numbers and ids from the ports of a step, and numbers back. */
export function moveExperiment(): Experiment<MeasuredTable['moves']> {
  const list = new RankList()
  const sizes = [null, 256, 4096, 65536] as const
  const ins = sizes.map((elements, index): Point & { readonly at: number } => {
    const value = list.buffer(elements, elements === null ? 'f32' : 'i32')
    list.code.push({ kind: 'move', stream: streams.move, direction: 'in', port: `port${index}`, value })
    return { at: index, bytes: 4 * (elements ?? 1), seconds: 0, weight: 1 }
  })
  const out = list.code.length
  list.code.push({ kind: 'move', stream: streams.move, direction: 'out', port: 'result', value: 0 })
  const times = [...ins, out].map((): number[] => [])
  return {
    program: handmadeProgram([list], [], 1),
    note: ([rank]) => {
      times.forEach((own, at) => {
        push(own, rank?.get(at))
      })
    },
    result: () => {
      const line = fitLine(ins.map((point) => ({ ...point, seconds: median(times[point.at]!) })))
      // What goes out is copied as what comes in.
      return { in: line, out: { seconds: median(times[out]!), secondsPerByte: line.secondsPerByte ?? 0 } }
    },
  }
}

/** The smallest all-reduce: after it both have come. */
function reduction(collective: number, value: ValueRef): Instruction {
  return {
    kind: 'collective',
    stream: streams.reduce,
    collective,
    operation: 'allReduce',
    reduce: 'sum',
    group: 0,
    parts: [{ source: { value }, result: { value, mode: 'set' } }],
  }
}

function push(list: number[], span: { readonly start: number; readonly end: number } | undefined): void {
  if (span !== undefined) list.push(span.end - span.start)
}
