import { internalError, MeshwrightError } from '../../base/index.ts'
import { bytesPerElement, isFloat } from '../../graph/index.ts'
import { allReduceWireBytes } from '../counters.ts'
import { type Place, placeBytes } from './arena.ts'
import { align, type GroupLayout, type HostLayout } from './hostLayout.ts'
import type { Waiter } from './signals.ts'
import type { HostKernels, WasmMemory } from './wasm/index.ts'

interface Area {
  readonly layout: GroupLayout
  readonly position: number
  /** Arrivals that the next barrier waits for; wraps around. */
  target: number
  /** Which of the two result chunks is next. */
  parity: 0 | 1
}

/** The collectives of one rank. Members meet in the order of their lists; every wait lets transfers go on. */
export class Collectives {
  calls = 0
  payloadBytes = 0
  wireBytes = 0
  private readonly waiter: Waiter
  private readonly words: Int32Array
  private readonly host: Uint8Array
  private readonly arena: Uint8Array
  private readonly kernels: HostKernels
  private readonly progress: () => void
  private readonly areas: ReadonlyMap<string, Area>

  /** `hostKernels` work on the shared memory. */
  constructor(
    layout: HostLayout,
    host: WasmMemory,
    hostKernels: HostKernels,
    arena: WasmMemory,
    waiter: Waiter,
    progress: () => void,
  ) {
    this.waiter = waiter
    this.words = waiter.signals.words
    this.host = new Uint8Array(host.buffer)
    this.arena = new Uint8Array(arena.buffer)
    this.kernels = hostKernels
    this.progress = progress
    const areas = new Map<string, Area>()
    for (const group of layout.groups) {
      const position = group.members.indexOf(waiter.rank)
      if (position >= 0) areas.set(group.members.join(' '), { layout: group, position, target: 0, parity: 0 })
    }
    this.areas = areas
  }

  begin(): void {
    this.calls = 0
    this.payloadBytes = 0
    this.wireBytes = 0
  }

  /** In place over the members; every element is reduced in rank order, so all of them get the same bits. */
  allReduce(id: number, reduce: 'sum' | 'max', members: readonly number[], place: Place): void {
    const bytes = placeBytes(place)
    this.calls++
    this.payloadBytes += bytes
    this.wireBytes += allReduceWireBytes(bytes, members.length)
    if (members.length === 1) return
    const area = this.areas.get(members.join(' '))
    if (area === undefined) throw internalError(`no area for the group of ranks ${members.join(', ')}`)
    for (let done = 0; done < bytes; done += area.layout.chunkBytes)
      this.reduceChunk(area, id, reduce, place, done, Math.min(area.layout.chunkBytes, bytes - done))
  }

  private reduceChunk(
    area: Area,
    id: number,
    reduce: 'sum' | 'max',
    place: Place,
    offset: number,
    bytes: number,
  ): void {
    const { members, chunkBytes, control, data } = area.layout
    const result = data + (members.length + area.parity) * chunkBytes
    const from = place.pointer + offset
    this.work(() => {
      this.host.set(this.arena.subarray(from, from + bytes), data + area.position * chunkBytes)
      // The size needs no check of its own: it goes with the id.
      this.words[control / 4 + 16 + area.position] = id
    })
    this.barrier(area)
    for (let member = 0; member < members.length; member++) {
      const other = this.words[control / 4 + 16 + member]!
      if (other !== id)
        throw new MeshwrightError(
          'RUN_COLLECTIVE_MISMATCH',
          `collective ${id} met collective ${other} of rank ${members[member]}`,
          { hint: 'the ranks disagree on the order of their collectives: `meshwright check` shows where' },
        )
    }
    this.work(() => this.reduceSlice(area, reduce, place, bytes, result))
    this.barrier(area)
    this.work(() => {
      this.arena.set(this.host.subarray(result, result + bytes), from)
    })
    // The other result chunk is next: members may still be reading this one when the first of them goes on.
    area.parity = area.parity === 0 ? 1 : 0
  }

  private reduceSlice(area: Area, reduce: 'sum' | 'max', place: Place, bytes: number, result: number): void {
    if (!isFloat(place.dtype)) throw internalError(`all-reduce of ${place.dtype}`)
    const { members, chunkBytes, data } = area.layout
    const slice = align(Math.ceil(bytes / members.length))
    const start = Math.min(bytes, area.position * slice)
    const length = Math.min(slice, bytes - start)
    if (length <= 0) return
    const count = length / bytesPerElement[place.dtype]
    const into = reduce === 'sum' ? this.kernels.addInto : this.kernels.maxInto
    this.kernels.copy(result + start, data + start, length)
    for (let member = 1; member < members.length; member++)
      into(place.dtype, result + start, data + member * chunkBytes + start, count)
  }

  /** Returns when all members have come here. Only the last to come wakes the others. */
  private barrier(area: Area): void {
    const { members, control } = area.layout
    const { words } = this
    const counter = control / 4
    area.target = (area.target + members.length) | 0
    const { target } = area
    if (((Atomics.add(words, counter, 1) + 1 - target) | 0) >= 0) {
      for (const member of members) if (member !== this.waiter.rank) this.waiter.signals.ring(member)
      return
    }
    this.waiter.until(() => {
      this.progress()
      return ((Atomics.load(words, counter) - target) | 0) >= 0
    })
  }

  private work(act: () => void): void {
    const began = performance.now()
    act()
    this.waiter.worked += performance.now() - began
  }
}
