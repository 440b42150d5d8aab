import type { BufferKind, CollectiveOperation, Program, Task } from '../program/index.ts'
import type { Action } from '../schedule/index.ts'

/** What a run is, for those who say how long it takes. */
export interface RunContext {
  readonly task: Task
  readonly action: Action | undefined
  /** Of the action's work, where the role does it in several runs: all together 1. Without an action 0. */
  readonly share: number
  /** Of the first operand that is read: what a kernel goes over. */
  readonly readBytes: number
}

export interface TransferCost {
  /** Seconds in which the message occupies its channel, its sender's buffer and, where streams take turns, the network. */
  readonly busy: number
  /** Seconds from then until it is there. Messages of a channel may overlap in this time. */
  readonly latency: number
  /** Seconds in which the receiver takes it from the channel into its buffer. */
  readonly receive: number
}

/** How long things take, in seconds or any one unit. Ranks matter only by the class of the links between them. */
export interface CostModel {
  readonly name: string
  readonly run: (context: RunContext) => number
  readonly transfer: (bytes: number, link: number) => TransferCost
  /** `payloadBytes`: of a rank's sources or results, whichever are the whole. */
  readonly collective: (
    operation: CollectiveOperation,
    payloadBytes: number,
    members: number,
    link: number,
  ) => number
  readonly move: (direction: 'in' | 'out', bytes: number) => number
  /** Class of the links among some ranks; left out: one class for all. */
  readonly link?: (ranks: readonly number[]) => number
  /** Seconds until a rank that sleeps goes on, for the `local` engine. */
  readonly wake?: number
  /** Seconds of a step outside the lists of the ranks, for the `local` engine. */
  readonly step?: number
}

/**
 * How a rank carries out its streams.
 *
 * - `independent`: side by side, each on its own: a cluster with as many queues as streams
 * - `turns`: streams of one resource take turns, whoever is ready first goes first
 * - `local`: the local engine, one thread a rank that goes through the list: transfers are copies by that thread, made
 *   between instructions and while it waits
 */
export type EngineProfile = 'independent' | 'turns' | 'local'

export interface SimulateOptions {
  /** Default `independent`. */
  readonly engine?: EngineProfile
  /**
   * Programs of at most this many ranks are simulated rank by rank; in larger ones a rank stands for its copies where
   * that is exact. Default 64.
   */
  readonly ranksInFull?: number
}

/** Seconds in which a rank does not compute; they add up to `total`. */
export interface IdleSeconds {
  /** Before its first run that takes time. */
  readonly warmup: number
  /** After its last. */
  readonly drain: number
  readonly transfer: number
  readonly collective: number
  /** For moves, or for a resource that another stream had. */
  readonly other: number
  readonly total: number
}

export interface HeldBytes {
  readonly name: string
  readonly bytes: number
}

export interface RankResult {
  /** The first of the ranks that this one stands for. */
  readonly rank: number
  /** How many ranks do the same at the same times. */
  readonly copies: number
  /** Index into `Program.roles`. */
  readonly role: number
  readonly busySeconds: number
  readonly idle: IdleSeconds
  /** Of all slots of all buffers: what is allocated. */
  readonly arenaBytes: number
  /** Most bytes that hold something at once, from the write of a value to its free. */
  readonly peakBytes: number
  readonly peakAt: number
  readonly peakByKind: Readonly<Record<BufferKind, number>>
  /** The largest buffers at the peak, largest first, all live values of a buffer together. */
  readonly peakBuffers: readonly HeldBytes[]
  /** The same for each tier that the rank uses. */
  readonly peakByTier: Readonly<Record<string, number>>
  /** Most micro-batches of stages whose activations are held at once. */
  readonly peakActivations: number
}

export interface CriticalStep {
  readonly rank: number
  readonly instruction: number
  readonly kind: 'compute' | 'transfer' | 'collective' | 'move'
  readonly start: number
  readonly seconds: number
  /** Of a transfer: its message, as `Times` numbers them. */
  readonly message?: number
  /**
   * Why it could not begin earlier: it read or wrote what the step before it (in the list) had to finish with, came
   * after it in its stream or on its thread, or shares its resource, or needed its place in the channel; `start` for
   * the first.
   */
  readonly reason: 'start' | 'data' | 'order' | 'resource' | 'slot' | 'collective'
}

export interface TransferSlack {
  readonly from: number
  readonly to: number
  readonly transfer: number
  readonly arrival: number
  /** By how much it could come later without making the first that needs it wait (or, if none does, the step). */
  readonly local: number
  /** By how much it could come later without making the step longer, everything else in its order. */
  readonly total: number
}

export const trafficKinds = ['p2p', 'allReduce', 'allGather', 'reduceScatter', 'other'] as const
export type TrafficKind = (typeof trafficKinds)[number]
export type Traffic = Readonly<Record<TrafficKind, number>>

export interface SimulationResult {
  readonly program: Program
  readonly engine: EngineProfile
  readonly costs: string
  readonly stepSeconds: number
  /** 1 - busy time / (ranks x step). */
  readonly idleFraction: number
  readonly ranks: readonly RankResult[]
  /** From the first instruction to the last, without gaps: seconds add up to `stepSeconds`. */
  readonly criticalPath: readonly CriticalStep[]
  /** Bytes that all ranks together put on the wire. */
  readonly bytes: Traffic
  /** Sends, and members' calls of collectives, of all ranks. */
  readonly calls: Traffic
  /** Instructions that were gone through, frees included. */
  readonly instructions: number
  readonly times: Times
}

/** When everything happened, for what draws and explains. */
export interface Times {
  readonly network: Network
  readonly stepSeconds: number
  /** By node (first node of the rank + instruction). Of an exchange: when it was posted, when all parts were complete. */
  readonly start: Float64Array
  readonly end: Float64Array
  /** By message. */
  readonly sendStart: Float64Array
  readonly sendEnd: Float64Array
  readonly arrival: Float64Array
  readonly received: Float64Array
  /** By meeting: when its last member had come. */
  readonly meetingStart: Float64Array
  readonly criticalPath: () => CriticalStep[]
  /** By message: `total` of TransferSlack. */
  readonly totalSlack: () => Float64Array
}

// What is simulated ---------------------------------------------------------------------------------------------

/** A role decoded for the simulation, once for all of its ranks. */
export interface RolePlan {
  readonly index: number
  readonly length: number
  /** As in the columns. */
  readonly kind: Int32Array
  readonly stream: Int32Array
  /** Seconds of runs and moves. */
  readonly cost: Float64Array
  /** Bytes that each collective is about. */
  readonly payload: ReadonlyMap<number, number>
  /** Instruction i waits for the end of deps[depStart[i] .. depStart[i + 1]), besides what its stream's order says. */
  readonly depStart: Int32Array
  readonly deps: Int32Array
  /** Parts of exchanges: those of instruction i are partStart[i] .. partStart[i + 1]. */
  readonly partStart: Int32Array
  readonly partIsSend: Uint8Array
  readonly partTransfer: Int32Array
  readonly partPeer: Int32Array
  readonly partBytes: Float64Array
  /** Instructions of each stream in order, frees left out. */
  readonly streams: readonly Int32Array[]
  readonly lives: ValueLives
}

/** From when to when values live. State and constants always do and are not among them. */
export interface ValueLives {
  readonly value: Int32Array
  /** First instruction that touches it: it lives from that one's start. */
  readonly first: Int32Array
  /** It lives until the last of uses[useStart[i] .. useStart[i + 1]) ends; without any, to the end of the step. */
  readonly useStart: Int32Array
  readonly uses: Int32Array
}

export interface SimulatedRank {
  readonly rank: number
  readonly copies: number
  readonly plan: RolePlan
  /** Number of its first instruction among all. */
  readonly base: number
  /** Message of each part. */
  readonly messages: Int32Array
  /** Meeting of each collective. */
  readonly meetings: ReadonlyMap<number, number>
}

export interface Channel {
  readonly from: number
  readonly to: number
  readonly stream: number
  /** Its messages are numbered first .. first + count, in order. */
  readonly first: number
  readonly count: number
}

/** One collective of one group. */
export interface Meeting {
  readonly expected: number
  readonly seconds: number
  /** Indices into `Network.ranks`, and each one's instruction. */
  readonly members: readonly { readonly rank: number; readonly instruction: number }[]
  /** Ranks that should come, of those that are simulated. */
  readonly ranks: readonly number[]
}

/** Who talks to whom. */
export interface Network {
  readonly program: Program
  readonly costs: CostModel
  readonly ranks: readonly SimulatedRank[]
  readonly nodes: number
  readonly channels: readonly Channel[]
  readonly meetings: readonly Meeting[]
  /** By message; nodes of its two ends. */
  readonly sender: Int32Array
  readonly receiver: Int32Array
  readonly channelOf: Int32Array
  readonly transfer: Int32Array
  readonly busy: Float64Array
  readonly latency: Float64Array
  readonly receive: Float64Array
}
