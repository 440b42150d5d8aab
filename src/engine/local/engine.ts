import { internalError } from '../../base/index.ts'
import { elementCount } from '../../graph/index.ts'
import { arenaBytes, coordinatesOf, type Program, type Role } from '../../program/index.ts'
import { CollectiveCounts } from '../counters.ts'
import { checkStepInput } from '../ports.ts'
import { gatherPack, isFirstHolder } from '../state.ts'
import type { Engine, HostTensor, RankCounters, StateTensors, StepInput, StepResult } from '../types.ts'
import type { Crew } from './crew.ts'
import { globalWords, type HostLayout, stepStartByte } from './hostLayout.ts'
import type { InputPort, OutputPort } from './portLayout.ts'
import { commands } from './protocol.ts'
import { collectiveNumbers, readResults, type StepResults, sharedNow } from './results.ts'
import { collectState, distributeState } from './stateCopies.ts'
import type { WasmMemory } from './wasm/index.ts'

/** A Program on worker threads, one for each rank. */
export class LocalEngine implements Engine {
  readonly program: Program
  private readonly roles: readonly Role[]
  private readonly layout: HostLayout
  private readonly host: WasmMemory
  private readonly crew: Crew
  private steps = 0

  constructor(program: Program, roles: readonly Role[], layout: HostLayout, host: WasmMemory, crew: Crew) {
    this.program = program
    this.roles = roles
    this.layout = layout
    this.host = host
    this.crew = crew
  }

  async writeState(state: StateTensors): Promise<void> {
    const pieces = distributeState(this.program, state)
    await this.crew.command(commands.message, (rank) => ({ direction: 'write', pieces: pieces[rank]! }))
  }

  async readState(): Promise<StateTensors> {
    const { pieces, tensors } = collectState(this.program, this.roles.length)
    await this.crew.command(commands.message, (rank) => ({ direction: 'read', pieces: pieces[rank]! }))
    return tensors()
  }

  async step(input: StepInput): Promise<StepResult> {
    checkStepInput(this.layout.ports.inputs, input)
    for (const port of this.layout.ports.inputs) this.give(port, input)
    const words = new Int32Array(this.host.buffer)
    Atomics.store(words, globalWords.step, this.steps)
    new Float64Array(this.host.buffer, stepStartByte, 1)[0] = sharedNow()
    await this.crew.command(commands.step)
    this.steps++
    return this.results()
  }

  memory(): Promise<readonly { rank: number; arenaBytes: number; workspaceBytes: number }[]> {
    return Promise.resolve(
      this.roles.map((role, rank) => ({
        rank,
        arenaBytes: arenaBytes(role),
        workspaceBytes: this.crew.workspaceBytes[rank]!,
      })),
    )
  }

  stop(): Promise<void> {
    return this.crew.stop()
  }

  private give(port: InputPort, input: StepInput): void {
    if (port.kind === 'scalar')
      new Float64Array(this.host.buffer, port.offset, 1)[0] = input.scalars[port.name]!
    else new Int32Array(this.host.buffer, port.offset, port.elements).set(input.tensors[port.name]!)
  }

  private results(): StepResult {
    const scalars: Record<string, number> = {}
    const tensors: Record<string, Map<string, HostTensor>> = {}
    for (const port of this.layout.ports.outputs)
      if (port.kind === 'scalar')
        scalars[port.name] ??= new Float64Array(this.host.buffer, port.offset, 1)[0]!
      else {
        tensors[port.name] ??= new Map()
        this.takePack(port, tensors[port.name]!)
      }
    const all = this.layout.results.map((at) => readResults(this.host, at))
    const ranks = all.map((results, rank) =>
      counters(rank, results, collectiveNumbers(this.host, this.layout.results[rank]!)),
    )
    if (this.layout.traces.length === 0) return { scalars, tensors, ranks }
    const trace = this.layout.traces.map((at, rank) =>
      new Float64Array(this.host.buffer, at, 3 * all[rank]!.traced).slice(),
    )
    return { scalars, tensors, ranks, trace }
  }

  private takePack(port: OutputPort, into: Map<string, HostTensor>): void {
    const role = this.roles[port.rank]!
    const spec = role.buffers[role.values[port.value]!.buffer]!
    if (spec.dtype !== 'f32' && spec.dtype !== 'f64') throw internalError(`a pack of ${spec.dtype}`)
    const count = elementCount(spec.shape)
    const { buffer } = this.host
    const elements =
      spec.dtype === 'f32'
        ? new Float32Array(buffer, port.offset, count)
        : new Float64Array(buffer, port.offset, count)
    const { mesh } = this.program
    const own = coordinatesOf(mesh, port.rank)
    const first = new Map(spec.pack?.map((entry) => [entry, isFirstHolder(spec, mesh, own, [entry])]))
    gatherPack(into, spec, mesh, own, elements, (entry) => first.get(entry) === true)
  }
}

function counters(rank: number, results: StepResults, collectives: Float64Array): RankCounters {
  const { sendCalls, sendBytes, compute, transfer, wait, total } = results
  return {
    rank,
    sends: { calls: sendCalls, bytes: sendBytes },
    collectives: new CollectiveCounts(collectives).counters(),
    seconds: { compute, transfer, wait, total },
  }
}
