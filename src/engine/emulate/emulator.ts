import { exitCodes, MeshwrightError } from '../../base/index.ts'
import { arenaBytes, type Program, rolesByRank } from '../../program/index.ts'
import { checkStepInput, stepPorts } from '../ports.ts'
import { type BufferView, checkState, gatherState, scatterState, stateTensors } from '../state.ts'
import type { Engine, StateTensors, StepInput, StepResult } from '../types.ts'
import { Network } from './network.ts'
import { Ports } from './ports.ts'
import { EmulatedRank } from './rank.ts'

export interface EmulatorOptions {
  /** Whether steps give times of their instructions (of the emulation itself). */
  readonly trace?: boolean
}

/** Ranks that a message about all of them names. */
const namedRanks = 32

/**
 * Interprets a Program in this thread with the reference implementations, in float64 whatever the program's dtypes:
 * every rank in turn, each as far as it can go. The oracle of the other engines, and stricter than they are: breaking
 * a rule about values, slots, transfers or collectives is an error with a code `EMULATE_…` (exit code 5) that names rank and
 * instruction. Reductions run in rank order. After a failed step the state is lost: write it again.
 */
export function createEmulator(program: Program, options: EmulatorOptions = {}): Engine {
  return new Emulator(program, options)
}

class Emulator implements Engine {
  readonly program: Program
  private readonly ranks: readonly EmulatedRank[]
  private readonly tracing: boolean
  private readonly tensors: ReturnType<typeof stateTensors>
  private readonly ports: ReturnType<typeof stepPorts>
  private readonly arenas: readonly number[]
  private hasState: boolean
  private stopped = false

  constructor(program: Program, options: EmulatorOptions) {
    this.program = program
    this.tracing = options.trace ?? false
    const roles = rolesByRank(program)
    this.ranks = roles.map((role, rank) => new EmulatedRank(program, role, rank))
    this.arenas = roles.map(arenaBytes)
    this.tensors = stateTensors(program)
    this.ports = stepPorts(program)
    this.hasState = this.tensors.size === 0
  }

  async writeState(state: StateTensors): Promise<void> {
    this.requireRunning()
    checkState(this.tensors, state)
    for (const { role, rank, memory } of this.ranks) {
      scatterState(this.program, role, rank, state, this.view)
      memory.spreadState()
    }
    this.hasState = true
  }

  async readState(): Promise<StateTensors> {
    this.requireState()
    return gatherState(this.tensors, this.view)
  }

  async step(input: StepInput): Promise<StepResult> {
    this.requireState()
    checkStepInput(this.ports, input)
    const network = new Network(this.program.channelSlots)
    const ports = new Ports(this.program, input)
    this.hasState = false
    const started = performance.now()
    for (const rank of this.ranks) rank.beginStep(started)
    this.runAll(network, ports)
    network.requireEmpty()
    for (const rank of this.ranks) rank.guarded(rank.length, () => rank.memory.endStep())
    this.hasState = true
    return {
      ...ports.results(),
      ranks: this.ranks.map((rank) => rank.counters()),
      ...(this.tracing ? { trace: this.ranks.map((rank) => rank.times()) } : {}),
    }
  }

  async memory(): ReturnType<Engine['memory']> {
    return this.arenas.map((bytes, rank) => ({ rank, arenaBytes: bytes, workspaceBytes: 0 }))
  }

  async stop(): Promise<void> {
    this.stopped = true
  }

  private readonly view: BufferView = (rank, buffer) => this.ranks[rank]!.memory.state(buffer)

  private runAll(network: Network, ports: Ports): void {
    for (;;) {
      let moved = false
      for (const rank of this.ranks) if (rank.advance(network, ports)) moved = true
      if (this.ranks.every((rank) => rank.finished)) return
      if (!moved) throw this.deadlock()
    }
  }

  private deadlock(): MeshwrightError {
    const lines = this.ranks
      .slice(0, namedRanks)
      .map((rank) => `  rank ${rank.rank} ${rank.finished ? 'has finished' : rank.waitsFor()}`)
    const more = this.ranks.length > namedRanks ? [`  and ${this.ranks.length - namedRanks} more ranks`] : []
    return new MeshwrightError('EMULATE_DEADLOCK', `no rank can go on:\n${[...lines, ...more].join('\n')}`, {
      exitCode: exitCodes.run,
      hint: 'ranks wait for each other in a circle: `meshwright check` marks it',
    })
  }

  private requireRunning(): void {
    if (this.stopped)
      throw new MeshwrightError('ENGINE_STOPPED', 'the engine was stopped', { exitCode: exitCodes.run })
  }

  private requireState(): void {
    this.requireRunning()
    if (!this.hasState)
      throw new MeshwrightError(
        'ENGINE_STATE_MISSING',
        'the engine has no state: none was written, or a step failed',
        {
          exitCode: exitCodes.run,
        },
      )
  }
}
