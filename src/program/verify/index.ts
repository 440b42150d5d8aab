import { roleRanks } from '../mesh.ts'
import type { Program } from '../types.ts'
import { checkActions } from './actions.ts'
import { checkBindings } from './bindings.ts'
import { checkBlocks } from './blocks.ts'
import { checkCollectives } from './collectives.ts'
import { checkCopies, hasCopies } from './copies.ts'
import { checkBufferedDeadlock, checkDeadlock, checkOneQueue } from './deadlock.ts'
import type { Finding, VerifyContext } from './finding.ts'
import { checkLifetimes } from './lifetimes.ts'
import { checkNorm, hasNorm } from './norm.ts'
import { checkOutside } from './outside.ts'
import { checkTypes } from './ports.ts'
import { rankViews } from './ranks.ts'
import { checkMemory, checkState } from './resources.ts'
import { checkRoles } from './roles.ts'
import { RoleView } from './roleView.ts'
import { checkShards } from './shards.ts'
import { checkSums } from './sums.ts'
import { checkTerms } from './terms.ts'
import { checkChannelOrder, checkTransfers } from './transfers.ts'

export interface Invariant {
  readonly name: string
  /** What it means when it holds, in one line. */
  readonly promise: string
  readonly check: (context: VerifyContext) => readonly Finding[]
  /** Whether there is anything to ask; left out: always. */
  readonly asked?: (context: VerifyContext) => boolean
  /** Only worth asking when these hold. */
  readonly after?: readonly string[]
}

/** What is proven about a Program. The order is the order of asking: what would hang or mislead first. */
export const invariants: readonly Invariant[] = [
  {
    name: 'roles',
    promise: 'every rank follows exactly one role',
    check: checkRoles,
  },
  {
    name: 'blocks',
    promise: 'blocks of a tensor lie along axes of the mesh, and together are the whole of it',
    check: checkBlocks,
  },
  {
    name: 'types',
    promise: 'every run gets and gives tensors of the types its task declares',
    check: checkTypes,
  },
  {
    name: 'bindings',
    promise: 'every run works on the buffers, micro-batch and version that its action and its task name',
    check: checkBindings,
    after: ['types'],
  },
  {
    name: 'ports',
    promise: 'what the step is given and gives goes through the buffers of those names, once',
    check: checkOutside,
  },
  {
    name: 'actions',
    promise: 'every action of the step is done once, on every rank of its stage',
    check: checkActions,
  },
  {
    name: 'matching',
    promise:
      'every transfer and collective meets its counterparts, once, with the same rows of the same value',
    check: (context) => [...checkTransfers(context), ...checkCollectives(context)],
  },
  {
    name: 'deadlock',
    promise: 'no circle of ranks waits for each other, even when every send waits for its receive',
    check: checkDeadlock,
    after: ['matching'],
  },
  {
    name: 'channelOrder',
    promise: 'what a rank sends to another on one stream arrives first in, first out',
    check: checkChannelOrder,
    after: ['matching'],
  },
  {
    name: 'bufferedDeadlock',
    promise: 'no circle of ranks waits for each other with the channel slots the program has',
    check: checkBufferedDeadlock,
    after: ['matching', 'channelOrder'],
  },
  {
    name: 'oneQueue',
    promise: 'one total order of all communication agrees with every rank',
    check: checkOneQueue,
    // A deadlock breaks this too, by the same circle.
    after: ['matching', 'deadlock'],
  },
  {
    name: 'lifetimes',
    promise: 'every read is written before, nothing is used after it is freed, nothing is left over',
    check: checkLifetimes,
  },
  {
    name: 'terms',
    promise: 'what replicas add up, each of its own samples, is declared a term of one sum over all of them',
    check: checkTerms,
    asked: ({ program }) => program.work.method !== 'declared',
  },
  {
    name: 'sums',
    promise: 'terms that ranks hold of one sum are added over all of them, once, before anybody reads them',
    check: checkSums,
    after: ['matching'],
  },
  {
    name: 'shards',
    promise: 'what is gathered of shards is what was dealt out, segment by segment, of this step',
    check: checkShards,
    after: ['matching'],
  },
  {
    name: 'copies',
    promise: 'ranks that hold the same elements of a tensor make them of the same values, and add no copies',
    check: checkCopies,
    asked: hasCopies,
    after: ['types', 'blocks', 'matching'],
  },
  {
    name: 'norm',
    promise: 'the norm counts every gradient element once, on one rank',
    check: checkNorm,
    asked: hasNorm,
    after: ['types'],
  },
  {
    name: 'state',
    promise:
      'a training step leaves the next version of all of its state but what is frozen, and one stage owns it',
    check: checkState,
  },
  {
    name: 'memory',
    promise: 'buffers and the largest workspace fit the budget of every rank',
    check: checkMemory,
    asked: ({ budgetBytes }) => budgetBytes !== undefined,
  },
]

export interface Verification {
  readonly findings: readonly Finding[]
  /** Names of invariants that hold. */
  readonly proven: readonly string[]
  /** Names of those that were not asked: one they build on does not hold, or there is nothing to ask. */
  readonly skipped: readonly string[]
}

export interface VerifyOptions {
  /** What a rank may use, in bytes. */
  readonly budgetBytes?: number
  /** Largest workspace of a task, in bytes. */
  readonly workspaceBytes?: number
  /** Programs of at most this many ranks are looked at rank by rank, larger ones by representatives. Default 64. */
  readonly ranksInFull?: number
}

/** Most findings that one invariant reports. */
const findingLimit = 100

/** Asks every invariant. What is proven is about this Program under our engines. */
export function verifyProgram(program: Program, options: VerifyOptions = {}): Verification {
  const roles = program.roles.map((role, index) => new RoleView(index, role, roleRanks(program.mesh, role)))
  const context: VerifyContext = {
    program,
    roles,
    ranks: rankViews(program, roles, options.ranksInFull),
    budgetBytes: options.budgetBytes,
    workspaceBytes: options.workspaceBytes ?? 0,
  }
  const findings: Finding[] = []
  const proven: string[] = []
  const skipped: string[] = []
  for (const invariant of invariants) {
    const groundless = invariant.after?.some((name) => !proven.includes(name)) === true
    if (groundless || invariant.asked?.(context) === false) {
      skipped.push(invariant.name)
      continue
    }
    const found = invariant.check(context)
    if (found.length === 0) proven.push(invariant.name)
    findings.push(...found.slice(0, findingLimit))
  }
  return { findings, proven, skipped }
}
