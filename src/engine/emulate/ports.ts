import { internalError } from '../../base/index.ts'
import type { TensorData } from '../../graph/index.ts'
import { elementCount } from '../../graph/index.ts'
import {
  coordinatesOf,
  type Instruction,
  type PackEntry,
  type Program,
  type Role,
  replicaIndex,
} from '../../program/index.ts'
import { gatherPack, holderKey, partsOn } from '../state.ts'
import type { HostTensor, StateTensors, StepInput, StepResult } from '../types.ts'
import { EmulationError, type RankMemory } from './memory.ts'

type Move = Extract<Instruction, { kind: 'move' }>

/** The outside of one step: what it is given, and what has come out of it. */
export class Ports {
  private readonly program: Program
  private readonly input: StepInput
  private readonly scalars = new Map<string, number>()
  private readonly tensors = new Map<string, Map<string, HostTensor>>()
  /** What the first of those who hold it gave: the others must give the same. */
  private readonly given = new Map<string, { readonly rank: number; readonly data: TensorData }>()

  constructor(program: Program, input: StepInput) {
    this.program = program
    this.input = input
  }

  move(rank: number, role: Role, memory: RankMemory, move: Move): void {
    const range = memory.range(move)
    if (move.direction === 'in') {
      memory.claim(move, range)
      memory.elements(range).set(this.take(rank, role, move))
      return
    }
    memory.requireWritten(move, range, 'gives')
    this.give(rank, role, move, memory.elements(range).slice())
  }

  results(): Pick<StepResult, 'scalars' | 'tensors'> {
    return {
      scalars: Object.fromEntries(this.scalars),
      tensors: Object.fromEntries<StateTensors>(this.tensors),
    }
  }

  /** A rank's share: the samples of a micro-batch are split over the replicas of the stage, in order. */
  private take(rank: number, role: Role, { port, value }: Move): ArrayLike<number> {
    const instance = role.values[value]!
    const { shape } = role.buffers[instance.buffer]!
    if (shape.length === 0) return [this.input.scalars[port]!]
    const { pipeline, axes } = coordinatesOf(this.program.mesh, rank)
    const { index, count } = replicaIndex(this.program.mesh, pipeline, axes)
    const share = elementCount(shape)
    const start = ((instance.microbatch ?? 0) * count + index) * share
    const ids = this.input.tensors[port]!
    if (start + share > ids.length)
      throw internalError(
        `port ${port} has ${ids.length} ids, rank ${rank} wants ${start} to ${start + share}`,
      )
    return ids.subarray(start, start + share)
  }

  private give(rank: number, role: Role, { port, value }: Move, data: TensorData): void {
    const instance = role.values[value]!
    const spec = role.buffers[instance.buffer]!
    const { mesh } = this.program
    const own = coordinatesOf(mesh, rank)
    const of = `${port} ${spec.name} ${instance.microbatch ?? ''} ${instance.step ?? ''}`
    if (spec.shape.length === 0) {
      if (this.isRepeated(`${own.pipeline} ${of}`, rank, port, 0, data)) return
      if (this.scalars.has(port))
        throw new EmulationError('EMULATE_PORT', `gives ${port}, which was given already`)
      this.scalars.set(port, data[0]!)
      return
    }
    if (spec.pack === undefined)
      throw new EmulationError('EMULATE_PORT', `gives ${port} neither a scalar nor a pack`)
    const tensors = this.tensors.get(port) ?? new Map<string, HostTensor>()
    this.tensors.set(port, tensors)
    const repeated = new Set<PackEntry>()
    for (const { entry, start, end, local } of partsOn(spec, mesh, own)) {
      const key = `${holderKey(spec, own, entry)} ${of} ${start}`
      if (this.isRepeated(key, rank, port, local, data.subarray(local, local + end - start)))
        repeated.add(entry)
    }
    gatherPack(tensors, spec, mesh, own, data, (entry) => !repeated.has(entry))
  }

  /** Whether a rank that holds the same gave it before; they must be the same bits. `first` is where `data` begins. */
  private isRepeated(key: string, rank: number, port: string, first: number, data: TensorData): boolean {
    const known = this.given.get(key)
    if (known === undefined) {
      this.given.set(key, { rank, data })
      return false
    }
    const element = data.findIndex((number, index) => !Object.is(number, known.data[index]))
    if (element >= 0)
      throw new EmulationError(
        'EMULATE_REPLICAS_DIFFER',
        `gives ${data[element]} as element ${first + element} of ${port}, rank ${known.rank} gave ${known.data[element]}`,
      )
    return true
  }
}
