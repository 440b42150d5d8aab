import { assertNever, internalError } from '../../base/index.ts'
import { isFloat } from '../../graph/index.ts'
import {
  constantValue,
  coordinatesOf,
  groupRanks,
  type Instruction,
  readInstructions,
  replicaIndex,
} from '../../program/index.ts'
import { ArenaLayout, placeBytes, placeData } from './arena.ts'
import type { BoundRun } from './boundRun.ts'
import { Collectives } from './collectives.ts'
import { injectFault } from './fault.ts'
import { bindMove } from './portMoves.ts'
import type { StateRequest, WorkerSetup } from './protocol.ts'
import { collectiveNumbers, type StepClock, writeResults } from './results.ts'
import { prepareRuns, type Runs } from './runs.ts'
import { Aborted, type Waiter } from './signals.ts'
import { planTransfers } from './transferPlan.ts'
import { Transfers } from './transfers.ts'
import { hostKernels, type WasmMemory } from './wasm/index.ts'

/** Carries out the instruction list of one rank, in order, once for each step. */
export class Executor {
  /** What the step is at; undefined between steps. */
  instruction: number | undefined
  private readonly setup: WorkerSetup
  private readonly waiter: Waiter
  private readonly clock: StepClock
  private readonly instructions: readonly Instruction[]
  private readonly arena: ArenaLayout
  private readonly memory: WasmMemory
  private readonly runs: Runs
  private readonly transfers: Transfers
  private readonly collectives: Collectives
  /** For each instruction but runs and exchanges what it does. */
  private readonly acts: readonly (() => void)[]
  /** Copies of what a step leaves to where the next one reads it, where these are different slots. */
  private readonly carries: readonly (() => void)[]
  private compute = 0
  private moved = 0

  private constructor(
    setup: WorkerSetup,
    waiter: Waiter,
    clock: StepClock,
    instructions: readonly Instruction[],
    arena: ArenaLayout,
    runs: Runs,
  ) {
    this.setup = setup
    this.waiter = waiter
    this.clock = clock
    this.instructions = instructions
    this.arena = arena
    this.runs = runs
    this.memory = runs.memory
    const { host, layout, program, role, rank } = setup
    const own = coordinatesOf(program.mesh, rank)
    const plan = planTransfers(role, instructions, arena, program.mesh, own)
    this.transfers = new Transfers(plan, layout, host, this.memory, waiter)
    this.transfers.onComplete = (instruction) => clock.completeTransfer(instruction)
    this.collectives = new Collectives(layout, host, hostKernels(host), this.memory, waiter, () =>
      this.transfers.progress(),
    )
    this.acts = instructions.map((instruction) => this.bindAct(instruction))
    this.carries = this.bindCarries()
    if (setup.noise) this.fillWithNoise()
    this.fillConstants()
  }

  static async create(setup: WorkerSetup, waiter: Waiter, clock: StepClock): Promise<Executor> {
    const instructions = readInstructions(setup.role.code)
    const arena = new ArenaLayout(setup.role)
    const runs = await prepareRuns(setup, instructions, arena)
    return new Executor(setup, waiter, clock, instructions, arena, runs)
  }

  get workspaceBytes(): number {
    return this.runs.workspaceBytes
  }

  /** One step. Throws Aborted if it ends early elsewhere. */
  async step(number: number): Promise<void> {
    const { instructions, transfers, collectives, waiter, clock } = this
    this.compute = 0
    this.moved = 0
    waiter.waited = 0
    waiter.worked = 0
    transfers.begin()
    collectives.counts.clear()
    clock.begin()
    const fault = this.setup.fault?.step === number ? this.setup.fault : undefined
    const faultAt = fault === undefined ? -1 : middleRun(instructions)
    for (let index = 0; index < instructions.length; index++) {
      this.instruction = index
      waiter.at(index)
      if (waiter.signals.aborted) throw new Aborted('the step has ended')
      transfers.progress()
      transfers.waitFor(index)
      if (fault !== undefined && index === faultAt) injectFault(fault)
      const instruction = instructions[index]!
      switch (instruction.kind) {
        case 'run':
          await this.run(index)
          break
        case 'exchange':
          clock.postTransfer(index, instruction.stream)
          transfers.post(index)
          break
        case 'collective': {
          const began = performance.now()
          this.acts[index]!()
          clock.record(index, began, performance.now())
          break
        }
        case 'move': {
          const began = performance.now()
          this.acts[index]!()
          const ended = performance.now()
          this.moved += ended - began
          clock.record(index, began, ended)
          break
        }
        case 'free':
          break
        default:
          assertNever(instruction)
      }
    }
    transfers.finish()
    for (const carry of this.carries) carry()
    this.instruction = undefined
    this.report()
  }

  /** Copies state to or from shared buffers. */
  copyState({ direction, pieces }: StateRequest): void {
    for (const { buffer, at, shared, from, bytes } of pieces) {
      const { pointer } = this.stateSlot(buffer)
      const inside = new Uint8Array(this.memory.buffer, pointer + at, bytes)
      const outside = new Uint8Array(shared, from, bytes)
      if (direction === 'write') inside.set(outside)
      else outside.set(inside)
    }
  }

  release(): Promise<void> {
    return this.runs.release()
  }

  private async run(index: number): Promise<void> {
    const bound = this.runs.bound.get(index)!
    const began = performance.now()
    const pending = bound.execute()
    if (pending !== undefined) {
      this.waiter.enterNative()
      try {
        await pending
      } finally {
        this.waiter.leaveNative()
      }
    }
    await this.check(index, bound)
    bound.finish()
    const ended = performance.now()
    this.compute += ended - began
    this.clock.record(index, began, ended)
  }

  private async check(index: number, bound: BoundRun): Promise<void> {
    if (!this.setup.checkFinite) return
    for (const check of bound.checks) {
      const { dtype, pointer, count } = check.place
      const element = this.runs.kernels.firstNonFinite(dtype === 'f64' ? 'f64' : 'f32', pointer, count)
      if (element < 0) continue
      const instruction = this.instructions[index]!
      const { program, role, rank, tasks } = this.setup
      const task = instruction.kind === 'run' ? tasks.get(instruction.task) : undefined
      if (instruction.kind !== 'run' || task?.kind !== 'graph')
        throw internalError('a check of what no graph made')
      // Loaded when needed: it brings the model encoder with it.
      const { explainNonFinite } = await import('./nonFinite.ts')
      throw await explainNonFinite(
        await this.runs.runtime(),
        { program, role, rank, run: instruction, task },
        this.memory,
        bound.inputs,
        check,
        element,
      )
    }
  }

  private bindAct(instruction: Instruction): () => void {
    const { program, role, rank, layout, host } = this.setup
    if (instruction.kind === 'move') {
      const replica = replicaIndex(program.mesh, role.pipeline, coordinatesOf(program.mesh, rank).axes)
      return bindMove(instruction, role, rank, replica, layout.ports, this.arena, this.memory, host)
    }
    if (instruction.kind === 'collective') {
      const group = program.groups[instruction.group]!
      const members = groupRanks(program.mesh, coordinatesOf(program.mesh, rank), group)
      return this.collectives.bind(instruction, role, members, this.arena)
    }
    return () => {}
  }

  private bindCarries(): (() => void)[] {
    const { role } = this.setup
    return role.values.flatMap(({ buffer, step, slot }) => {
      const home = role.buffers[buffer]!.state === true && step === 1 ? this.stateSlot(buffer) : undefined
      const left = this.arena.slot(buffer, slot)
      if (home === undefined || home.pointer === left.pointer) return []
      return [() => this.runs.kernels.copy(home.pointer, left.pointer, placeBytes(left))]
    })
  }

  /** Where the state that a step is given lies. */
  private stateSlot(buffer: number): ReturnType<ArenaLayout['slot']> {
    const given = this.setup.role.values.find((value) => value.buffer === buffer && (value.step ?? 0) === 0)
    return this.arena.slot(buffer, given?.slot ?? 0)
  }

  private fillConstants(): void {
    const { role, program, rank } = this.setup
    const own = coordinatesOf(program.mesh, rank)
    role.buffers.forEach((buffer, index) => {
      if (buffer.constant === undefined) return
      const filler = constantValue(buffer.constant, program.mesh, own)
      for (let slot = 0; slot < role.pools[buffer.pool]!.slots; slot++)
        placeData(this.memory, this.arena.slot(index, slot)).fill(filler)
    })
  }

  /** Positive, as variances and probabilities are. A linear congruential generator (Numerical Recipes' constants). */
  private fillWithNoise(): void {
    const { role } = this.setup
    let word = 1
    role.buffers.forEach((buffer, index) => {
      if (!isFloat(buffer.dtype)) return
      for (let slot = 0; slot < role.pools[buffer.pool]!.slots; slot++) {
        const data = placeData(this.memory, this.arena.slot(index, slot))
        for (let at = 0; at < data.length; at++) {
          word = (Math.imul(word, 1664525) + 1013904223) >>> 0
          data[at] = (word + 1) / 2 ** 36
        }
      }
    })
  }

  private report(): void {
    const { transfers, collectives, waiter, clock } = this
    const at = this.setup.layout.results[this.setup.rank]!
    collectiveNumbers(this.setup.host, at).set(collectives.counts.numbers)
    writeResults(this.setup.host, at, {
      sendCalls: transfers.sends,
      sendBytes: transfers.sentBytes,
      compute: this.compute / 1000,
      transfer: (waiter.worked + this.moved) / 1000,
      wait: waiter.waited / 1000,
      total: clock.elapsed() / 1000,
      traced: clock.traced,
    })
  }
}

function middleRun(instructions: readonly Instruction[]): number {
  const middle = Math.floor(instructions.length / 2)
  const after = instructions.findIndex((one, index) => index >= middle && one.kind === 'run')
  return after >= 0 ? after : instructions.length - 1
}
