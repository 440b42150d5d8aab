import { assertNever, internalError, MeshwrightError } from '../../base/index.ts'
import { bytesPerElement, type FloatDType } from '../../graph/index.ts'
import { collectivePayloadBytes, type Instruction, type Role } from '../../program/index.ts'
import { CollectiveCounts } from '../counters.ts'
import { type ArenaLayout, type Place, placeBytes, placeData } from './arena.ts'
import { type Piece, planRounds, type Round } from './collectivePlan.ts'
import { align, type GroupLayout, type HostLayout } from './hostLayout.ts'
import type { Waiter } from './signals.ts'
import type { HostKernels, WasmMemory } from './wasm/index.ts'

type Collective = Extract<Instruction, { kind: 'collective' }>

interface Area {
  readonly layout: GroupLayout
  readonly position: number
  /** Arrivals that the next barrier waits for; wraps around. */
  target: number
  /** Which of the two sets of areas, and which of the two result areas, is next. */
  inputs: 0 | 1
  outputs: 0 | 1
}

/** Where what goes into a result lies: in the shared memory, in the rank's own, or it is zeros. */
type Origin = { readonly host: number } | { readonly own: number } | 'zeros'

/**
 * The collectives of one rank. Members meet in the order of their lists; every wait lets transfers go on. What others
 * need is put into one's area of the shared memory, all meet, and each takes what it needs from the others' areas. The
 * areas are double: who goes on first may put in what comes next while others still take.
 */
export class Collectives {
  readonly counts: CollectiveCounts = new CollectiveCounts()
  private readonly waiter: Waiter
  private readonly words: Int32Array
  private readonly hostMemory: WasmMemory
  private readonly host: Uint8Array
  private readonly arenaMemory: WasmMemory
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
    this.hostMemory = host
    this.host = new Uint8Array(host.buffer)
    this.arenaMemory = arena
    this.arena = new Uint8Array(arena.buffer)
    this.kernels = hostKernels
    this.progress = progress
    const areas = new Map<string, Area>()
    for (const group of layout.groups) {
      const position = group.members.indexOf(waiter.rank)
      if (position < 0) continue
      areas.set(group.members.join(' '), { layout: group, position, target: 0, inputs: 0, outputs: 0 })
    }
    this.areas = areas
  }

  /** A collective ready to be done again and again. All members get the same bits: elements are reduced in rank order. */
  bind(instruction: Collective, role: Role, members: readonly number[], arena: ArenaLayout): () => void {
    const { operation } = instruction
    const payloadBytes = collectivePayloadBytes(role, instruction)
    const count = (): void => this.counts.add(operation, payloadBytes, members.length)
    if (members.length === 1) {
      const copies = instruction.parts.map(({ source, result }) => {
        const [from, to] = [arena.operand(source), arena.operand(result)]
        return () => this.deliver({ own: from.pointer }, to, to.pointer, placeBytes(to), result.mode)
      })
      return () => {
        count()
        this.work(() => {
          for (const copy of copies) copy()
        })
      }
    }
    const area = this.areas.get(members.join(' '))
    if (area === undefined) throw internalError(`no area for the group of ranks ${members.join(', ')}`)
    const rounds = planRounds(instruction, members.length, arena, area.layout.areaBytes)
    return () => {
      count()
      for (const round of rounds) this.round(area, instruction, round)
    }
  }

  private round(area: Area, instruction: Collective, round: Round): void {
    const { members, control } = area.layout
    const ids = control / 4 + 16 + area.inputs * members.length
    this.work(() => {
      for (const piece of round) this.put(area, instruction, piece)
      // Sizes need no check of their own: they go with the id.
      this.words[ids + area.position] = instruction.collective
    })
    this.barrier(area)
    for (let member = 0; member < members.length; member++) {
      const other = this.words[ids + member]!
      if (other !== instruction.collective)
        throw new MeshwrightError(
          'RUN_COLLECTIVE_MISMATCH',
          `collective ${instruction.collective} met collective ${other} of rank ${members[member]}`,
          { hint: 'the ranks disagree on the order of their collectives: `meshwright check` shows where' },
        )
    }
    if (instruction.operation === 'allReduce') {
      this.work(() => {
        for (const piece of round) this.reduceSlice(area, instruction, piece)
      })
      this.barrier(area)
      // After two meetings nobody reads the areas any more, but maybe the result.
      this.work(() => {
        for (const piece of round) this.take(piece, 0, { host: resultAt(area) + piece.at })
      })
      area.outputs = area.outputs === 0 ? 1 : 0
      return
    }
    this.work(() => {
      for (const piece of round) this.takeAll(area, instruction, piece)
    })
    area.inputs = area.inputs === 0 ? 1 : 0
  }

  /** Blocks of one's source that others need, into one's area. */
  private put(area: Area, { operation, root = 0 }: Collective, piece: Piece): void {
    const { position } = area
    const { source, sourceBlock, offset, bytes } = piece
    if ((operation === 'broadcast' || operation === 'scatter') && position !== root) return
    const skipsOwn = operation === 'scatter' || operation === 'allToAll'
    const end = source.pointer + placeBytes(source)
    for (let block = 0, from = source.pointer; from < end; block++, from += sourceBlock)
      if (!(skipsOwn && block === position))
        this.host.set(
          this.arena.subarray(from + offset, from + offset + bytes),
          inputAt(area, position, piece, block),
        )
  }

  /** All blocks of one's result, from the areas of the others and from one's own source. */
  private takeAll(area: Area, instruction: Collective, piece: Piece): void {
    const { position } = area
    const { operation, root = 0, shift = 0 } = instruction
    const count = area.layout.members.length
    const from = (member: number, block: number): Origin =>
      member === position
        ? { own: piece.source.pointer + block * piece.sourceBlock + piece.offset }
        : { host: inputAt(area, member, piece, block) }
    switch (operation) {
      case 'reduceScatter':
        this.take(piece, 0, { host: this.reduceBlock(area, instruction, piece, position) })
        return
      case 'reduce':
        this.take(
          piece,
          0,
          position === root ? { host: this.reduceBlock(area, instruction, piece, 0) } : 'zeros',
        )
        return
      case 'allGather':
      case 'gather':
        for (let member = 0; member < count; member++)
          this.take(piece, member, operation === 'gather' && position !== root ? 'zeros' : from(member, 0))
        return
      case 'broadcast':
        this.take(piece, 0, from(root, 0))
        return
      case 'scatter':
        this.take(piece, 0, from(root, position))
        return
      case 'allToAll':
        for (let member = 0; member < count; member++) this.take(piece, member, from(member, position))
        return
      case 'permute':
        this.take(piece, 0, from((((position - shift) % count) + count) % count, 0))
        return
      case 'allReduce':
        throw internalError('an all-reduce meets twice')
      default:
        assertNever(operation)
    }
  }

  private take(piece: Piece, block: number, origin: Origin): void {
    const { result, resultBlock, offset, bytes, mode } = piece
    this.deliver(origin, result, result.pointer + block * resultBlock + offset, bytes, mode)
  }

  private deliver(origin: Origin, { dtype }: Place, to: number, bytes: number, mode: 'set' | 'add'): void {
    if (mode === 'set') {
      if (origin === 'zeros') this.arena.fill(0, to, to + bytes)
      else if ('own' in origin) this.arena.copyWithin(to, origin.own, origin.own + bytes)
      else this.arena.set(this.host.subarray(origin.host, origin.host + bytes), to)
      return
    }
    if (origin === 'zeros') return
    const count = bytes / bytesPerElement[dtype]
    const [memory, pointer] =
      'own' in origin ? [this.arenaMemory, origin.own] : [this.hostMemory, origin.host]
    const target = placeData(this.arenaMemory, { pointer: to, dtype, shape: [count], count })
    const source = placeData(memory, { pointer, dtype, shape: [count], count })
    for (let index = 0; index < count; index++) target[index]! += source[index]!
  }

  /** Reduces a block over all members, onto that of the first, which nobody else reads. Returns where that is. */
  private reduceBlock(area: Area, instruction: Collective, piece: Piece, block: number): number {
    const into = this.reducer(instruction)
    const dtype = piece.source.dtype as FloatDType
    const at = inputAt(area, 0, piece, block)
    for (let member = 1; member < area.layout.members.length; member++)
      into(dtype, at, inputAt(area, member, piece, block), piece.bytes / bytesPerElement[dtype])
    return at
  }

  /** One's share of an all-reduce. */
  private reduceSlice(area: Area, instruction: Collective, piece: Piece): void {
    const count = area.layout.members.length
    const slice = align(Math.ceil(piece.bytes / count))
    const start = Math.min(piece.bytes, area.position * slice)
    const length = Math.min(slice, piece.bytes - start)
    if (length <= 0) return
    const into = this.reducer(instruction)
    const dtype = piece.source.dtype as FloatDType
    const result = resultAt(area) + piece.at + start
    this.kernels.copy(result, inputAt(area, 0, piece, 0) + start, length)
    for (let member = 1; member < count; member++)
      into(dtype, result, inputAt(area, member, piece, 0) + start, length / bytesPerElement[dtype])
  }

  private reducer({ reduce }: Collective): HostKernels['addInto'] {
    return reduce === 'max' ? this.kernels.maxInto : this.kernels.addInto
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

/** Where a member has put a block of a piece. */
function inputAt({ layout, inputs }: Area, member: number, { at, stride }: Piece, block: number): number {
  return layout.data + (inputs * layout.members.length + member) * layout.areaBytes + at + block * stride
}

function resultAt({ layout, outputs }: Area): number {
  return layout.data + (2 * layout.members.length + outputs) * layout.areaBytes
}
