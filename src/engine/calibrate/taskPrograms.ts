import { isFloat } from '../../graph/index.ts'
import {
  encodeInstructions,
  type Instruction,
  operandBytes,
  type Program,
  type Role,
  rankCount,
  readInstructions,
  roleRanks,
  type Task,
} from '../../program/index.ts'
import { evenly } from './lines.ts'

type Run = Extract<Instruction, { kind: 'run' }>

/** Runs that should take equally long: of one task, on operands as large, adding or not. */
export interface TaskClass {
  readonly task: Task
  /** Of the first operand. */
  readonly bytes: number
  /** How many of them a step has, over all ranks. */
  readonly count: number
}

/** A program that only computes, and whose runs are of which class. */
export interface TaskProgram {
  readonly program: Program
  /** By rank, then by instruction. */
  readonly classes: readonly ReadonlyMap<number, TaskClass>[]
}

/** Of runs that should be alike so many are timed, each on its own operands. */
const mostRuns = 4
/** Whoever is done first leaves the others the machine to themselves: by then each run was timed once more. */
const turns = 2

/**
 * Programs in which every task of `program` runs alone: no transfers, no collectives, no schedule, one task after the
 * other in the order of their first use, and as many ranks at once as the program has, at most `cores`: cores that work
 * at the same time share caches and memory.
 */
export function taskPrograms(program: Program, cores: number): TaskProgram[] {
  const width = Math.max(1, Math.min(cores, rankCount(program.mesh)))
  const groups: Role[][] = []
  for (let first = 0; first < program.roles.length; first += width)
    groups.push(
      Array.from({ length: width }, (_, place) => program.roles[(first + place) % program.roles.length]!),
    )
  return groups.map((roles) => {
    const alone = roles.map((role, pipeline) => isolate(program, role, pipeline))
    return {
      program: {
        work: { method: 'declared', stages: width, microbatches: program.work.microbatches, phases: [] },
        mesh: { submeshes: roles.map(() => []) },
        streams: program.streams,
        groups: [],
        tasks: program.tasks,
        roles: alone.map(({ role }) => role),
        channelSlots: 1,
      },
      classes: alone.map(({ classes }) => classes),
    }
  })
}

function isolate(
  program: Program,
  role: Role,
  pipeline: number,
): { readonly role: Role; readonly classes: Map<number, TaskClass> } {
  const instructions = readInstructions(role.code)
  const known = classify(program, role, instructions)
  // Tasks by turns, as steps have them more or less: twice in a row, one would find its operands in the caches.
  const lists = [...known.values()].map(({ taskClass, runs }) =>
    evenly(runs, mostRuns).map((run) => ({ run, taskClass })),
  )
  const chosen = Array.from({ length: mostRuns }, (_, turn) =>
    lists.flatMap((list) => list[turn] ?? []),
  ).flat()
  const used = new Set(chosen.flatMap(({ run }) => [...run.reads, ...run.writes].map(({ value }) => value)))
  const code: Instruction[] = instructions.flatMap((one): Instruction[] =>
    one.kind === 'move' && one.direction === 'in' && used.has(one.value)
      ? [{ ...one, port: `${one.port}.${pipeline}` }]
      : [],
  )
  const classes = new Map<number, TaskClass>()
  for (let turn = 0; turn < turns; turn++)
    for (const { run, taskClass } of chosen) {
      classes.set(code.length, taskClass)
      code.push(run)
    }
  const { where: _, ...rest } = role
  const name = `alone${pipeline}`
  return {
    role: { ...rest, ...ownPlaces(role, used), name, pipeline, code: encodeInstructions(code) },
    classes,
  }
}

function classify(
  program: Program,
  role: Role,
  instructions: readonly Instruction[],
): Map<string, { readonly taskClass: TaskClass; readonly runs: Run[] }> {
  const ranks = roleRanks(program.mesh, role).length
  const runsOf = new Map<string, Run[]>()
  for (const run of instructions) {
    if (run.kind !== 'run') continue
    const modes = run.writes.map(({ mode }) => mode).join()
    const key = `${program.tasks[run.task]!.hash} ${modes} ${firstBytes(role, run)}`
    const runs = runsOf.get(key)
    if (runs === undefined) runsOf.set(key, [run])
    else runs.push(run)
  }
  return new Map(
    [...runsOf].map(([key, runs]) => {
      const task = program.tasks[runs[0]!.task]!
      const taskClass = { task, bytes: firstBytes(role, runs[0]!), count: runs.length * ranks }
      return [key, { taskClass, runs }]
    }),
  )
}

function firstBytes(role: Role, { reads }: Run): number {
  return reads[0] === undefined ? 0 : operandBytes(role, reads[0])
}

/**
 * Every buffer in a pool of its own, with slots for the values that are used: what nobody fills any more keeps what it
 * began with, and whoever reads finds what was made for it, of whichever micro-batch. Sums are counted on all ranks.
 */
function ownPlaces(role: Role, used: ReadonlySet<number>): Pick<Role, 'buffers' | 'pools' | 'values'> {
  const slots = role.buffers.map(() => new Map<number, number>())
  const values = role.values.map((value, index) => {
    const own = slots[value.buffer]!
    if (!used.has(index)) return { ...value, slot: 0 }
    const slot = own.get(value.slot) ?? own.size
    own.set(value.slot, slot)
    return { ...value, slot }
  })
  const buffers = role.buffers.map(({ pack, shard, constant, ...buffer }, pool) => ({
    ...buffer,
    pool,
    ...(shard === undefined && pack !== undefined && isFloat(buffer.dtype) ? { pack } : {}),
    ...(constant === undefined ? {} : { constant: { isZero: [] } }),
  }))
  return { values, buffers, pools: slots.map(({ size }) => ({ slots: Math.max(1, size) })) }
}
