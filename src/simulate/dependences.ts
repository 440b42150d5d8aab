import {
  columnAccess,
  columnKinds,
  operandElements,
  type Region,
  type Role,
  visitColumnAccesses,
} from '../program/index.ts'
import type { ValueLives } from './types.ts'

export interface Dependences {
  readonly depStart: Int32Array
  readonly deps: Int32Array
  readonly lives: ValueLives
}

/** Something that touched part of a place, and that later accesses still have to mind. */
interface Touch {
  readonly instruction: number
  readonly start: number
  readonly end: number
  readonly writes: boolean
}

/**
 * Where values lie: one number for all values that share memory. The one function here that knows how memory is shared.
 */
export function valuePlaces({ buffers, pools, values }: Role): {
  readonly places: Int32Array
  readonly count: number
} {
  const first = new Int32Array(pools.length + 1)
  pools.forEach(({ slots }, pool) => {
    first[pool + 1] = first[pool]! + slots
  })
  const places = new Int32Array(values.length)
  values.forEach(({ buffer, slot }, value) => {
    places[value] = first[buffers[buffer]!.pool]! + slot
  })
  return { places, count: first[pools.length]! }
}

/**
 * What each instruction has to wait for: reads after writes, writes after reads and writes of the same memory, and what
 * precedes it in its stream where that is not done when its stream comes to it: an exchange is only posted there. What
 * the order of the stream gives anyhow is left out.
 */
export function dependencesOf(role: Role): Dependences {
  const { code } = role
  const { places, count } = valuePlaces(role)
  const { kind, stream } = code
  const depStart = new Int32Array(code.length + 1)
  const deps: number[] = []
  const lastWriter = new Int32Array(count).fill(-1)
  const readersOf = new Int32Array(count).fill(-1)
  const readers: number[] = []
  const nextReader: number[] = []
  const torn = new Map<number, Touch[]>()
  /** Latest instruction that was put after each. */
  const follower = new Int32Array(code.length).fill(-1)
  const posted: number[][] = []
  const lives = new Lives(role)
  let index = 0

  const after = (earlier: number): void => {
    if (earlier < 0 || earlier === index || follower[earlier] === index) return
    follower[earlier] = index
    if (stream[earlier] === stream[index] && kind[earlier] !== columnKinds.exchange) return
    deps.push(earlier)
  }
  const touch = (value: number, region: number, access: number): void => {
    lives.touch(value, index)
    const place = places[value]!
    const rows = region < 0 ? undefined : partOf(role, value, region)
    const touches = torn.get(place)
    if (rows === undefined && touches === undefined) {
      after(lastWriter[place]!)
      if (access === columnAccess.read) {
        const head = readersOf[place]!
        // Of reads one after the other in a stream the last is enough.
        if (head >= 0 && kind[index] !== columnKinds.exchange && sameQueue(readers[head]!, index))
          readers[head] = index
        else {
          readersOf[place] = readers.length
          readers.push(index)
          nextReader.push(head)
        }
        return
      }
      for (let at = readersOf[place]!; at >= 0; at = nextReader[at]!) after(readers[at]!)
      lastWriter[place] = index
      readersOf[place] = -1
      return
    }
    const list = touches ?? wholeTouches(place)
    const start = rows?.start ?? 0
    const end = rows?.end ?? Number.POSITIVE_INFINITY
    const writes = access !== columnAccess.read
    for (const old of list)
      if ((writes || old.writes) && old.start < end && start < old.end) after(old.instruction)
    if (writes && rows === undefined) {
      torn.delete(place)
      lastWriter[place] = index
      readersOf[place] = -1
      return
    }
    const left = writes ? list.filter((old) => old.start < start || old.end > end) : list
    left.push({ instruction: index, start, end, writes })
    torn.set(place, left)
  }
  const sameQueue = (earlier: number, later: number): boolean =>
    stream[earlier] === stream[later] && kind[earlier] !== columnKinds.exchange
  const wholeTouches = (place: number): Touch[] => {
    const whole = { start: 0, end: Number.POSITIVE_INFINITY }
    const list: Touch[] = []
    if (lastWriter[place]! >= 0) list.push({ instruction: lastWriter[place]!, ...whole, writes: true })
    for (let at = readersOf[place]!; at >= 0; at = nextReader[at]!)
      list.push({ instruction: readers[at]!, ...whole, writes: false })
    return list
  }

  for (; index < code.length; index++) {
    depStart[index] = deps.length
    if (kind[index] === columnKinds.free) {
      for (let at = code.start[index]!; at < code.start[index + 1]!; at++) lives.free(code.operands[at]!)
      continue
    }
    visitColumnAccesses(code, index, touch)
    const own = stream[index]!
    const pending = posted[own]
    if (kind[index] === columnKinds.exchange) {
      if (pending === undefined) posted[own] = [index]
      else pending.push(index)
    } else if (pending !== undefined) {
      for (const earlier of pending) after(earlier)
      posted[own] = []
    }
  }
  depStart[code.length] = deps.length
  return { depStart, deps: new Int32Array(deps), lives: lives.finish() }
}

/** In elements, as buffers that share memory may differ in shape; undefined where the region is all of the value. */
function partOf(role: Role, value: number, region: number): Region | undefined {
  const rows = role.regions[region]
  const all = role.buffers[role.values[value]!.buffer]!.shape[0] ?? 1
  if (rows === undefined || (rows.start === 0 && rows.end === all)) return undefined
  return operandElements(role, { value, region })
}

/** Collects the lives of values, in the order of the list. */
class Lives {
  private readonly role: Role
  private readonly first: Int32Array
  /** Last users of each value: one of each stream, and every exchange. */
  private readonly head: Int32Array
  private readonly user: number[] = []
  private readonly next: number[] = []
  private readonly freed: Uint8Array

  constructor(role: Role) {
    this.role = role
    this.first = new Int32Array(role.values.length).fill(-1)
    this.head = new Int32Array(role.values.length).fill(-1)
    this.freed = new Uint8Array(role.values.length)
  }

  touch(value: number, index: number): void {
    const { first, head, user, next } = this
    const { stream, kind } = this.role.code
    if (first[value] === -1) first[value] = index
    const last = head[value]!
    if (last >= 0) {
      const earlier = user[last]!
      if (earlier === index) return
      if (stream[earlier] === stream[index] && kind[earlier] !== columnKinds.exchange) {
        user[last] = index
        return
      }
    }
    head[value] = user.length
    user.push(index)
    next.push(last)
  }

  free(value: number): void {
    this.freed[value] = 1
  }

  finish(): ValueLives {
    const { role, first, head, user, next, freed } = this
    const value: number[] = []
    const start: number[] = []
    const useStart: number[] = []
    const uses: number[] = []
    role.values.forEach(({ buffer }, index) => {
      const { state, constant } = role.buffers[buffer]!
      if (first[index]! < 0 || state === true || constant !== undefined) return
      value.push(index)
      start.push(first[index]!)
      useStart.push(uses.length)
      if (freed[index] === 0) return
      for (let at = head[index]!; at >= 0; at = next[at]!) uses.push(user[at]!)
    })
    useStart.push(uses.length)
    return {
      value: new Int32Array(value),
      first: new Int32Array(start),
      useStart: new Int32Array(useStart),
      uses: new Int32Array(uses),
    }
  }
}
