import { availableParallelism, cpus } from 'node:os'
import { median } from '../../base/index.ts'
import { type Program, rankCount, type Task } from '../../program/index.ts'
import type { MeasuredCollective, MeasuredTable } from '../../simulate/index.ts'
import { stoppedError } from '../local/crew.ts'
import { createLocalEngine } from '../local/start.ts'
import { stepPorts } from '../ports.ts'
import type { Engine, StepInput } from '../types.ts'
import {
  collectiveExperiment,
  type Experiment,
  moveExperiment,
  type StepTimes,
  transferExperiment,
} from './communication.ts'
import { collectPayloads } from './payloads.ts'
import { type TaskTimes, taskExperiments, taskLines } from './taskExperiment.ts'

export interface CalibrateOptions {
  /** Turns of each experiment that count. Default 12. */
  readonly rounds?: number
  /** Stops after so many seconds, but not before each experiment was had three turns. Default 60. */
  readonly seconds?: number
  /** Part of the rounds that is done. */
  readonly onProgress?: (fraction: number, text: string) => void
  /** Asked between steps; true ends the calibration with `RUN_STOPPED`. */
  readonly shouldStop?: () => boolean
  /** Added to the table beside Node: versions of what ran. */
  readonly software?: Readonly<Record<string, string>>
}

const warmupRounds = 1
/** Steps of a turn. The first is not counted: it finds caches as the experiment before it has left them. */
const stepsPerTurn = 3
const leastRounds = 3

/**
 * Times what the steps of some programs are made of, on this machine, and not the programs: every task alone (see
 * `taskPrograms`), messages and collectives of their sizes among ranks that do nothing else, moves, and what a step takes
 * around all that. Tasks that several programs have are one entry. Everything is run by the local engine itself, which
 * gives the times of its instructions; experiments take turns of a few steps, so that each is spread over the whole time,
 * and what counts is the median. Inputs are the same in every calibration.
 *
 * Figures are of use where nothing else wants the cores.
 *
 * @throws MeshwrightError as `createLocalEngine` and `Engine.step` do
 */
export async function calibrate(
  programs: readonly Program[],
  options: CalibrateOptions = {},
): Promise<MeasuredTable> {
  const cores = availableParallelism()
  const { messages, collectives } = collectPayloads(programs, Math.max(2, cores))
  const tasks = programs.flatMap((program) => taskExperiments(program, cores))
  const moves = moveExperiment()
  const talks = programs.some(({ mesh }) => rankCount(mesh) > 1)
  const transfers = talks ? transferExperiment(messages) : undefined
  const sizes = [...new Set(collectives.map(({ members }) => members))]
  const meetings = sizes.map((members) =>
    collectiveExperiment(
      collectives.filter((one) => one.members === members),
      members,
    ),
  )
  const around = await runInTurns(
    [...tasks, moves, ...(transfers === undefined ? [] : [transfers]), ...meetings],
    options,
  )
  const nothing = { seconds: 0, secondsPerByte: 0 }
  const { send, receive, wake } = transfers?.result() ?? { send: nothing, receive: nothing, wake: 0 }
  return {
    meshwrightCosts: 1,
    machine: {
      name: cpus()[0]?.model.trim() ?? 'unknown',
      cores,
      software: { node: process.versions.node, ...options.software },
    },
    tasks: taskLines(tasks.flatMap((experiment): readonly TaskTimes[] => experiment.result())),
    transfer: { send, receive },
    wake,
    step: around,
    collectives: byOperation(meetings.flatMap((experiment) => experiment.result())),
    moves: moves.result(),
  }
}

/** Returns the seconds of a step before its first and after its last instruction. */
async function runInTurns(
  experiments: readonly Experiment<unknown>[],
  { rounds = 12, seconds = 60, onProgress, shouldStop }: CalibrateOptions,
): Promise<number> {
  const engines: Engine[] = []
  const around: number[] = []
  try {
    const inputs = experiments.map(({ program }) => inputOf(program))
    for (const { program } of experiments)
      engines.push(await createLocalEngine(program, { trace: true, noise: true }))
    const began = performance.now()
    for (let round = -warmupRounds; round < rounds; round++) {
      const spent = (performance.now() - began) / 1000
      if (round >= leastRounds && spent > seconds) break
      for (const [index, engine] of engines.entries()) {
        for (let step = 0; step < stepsPerTurn; step++) {
          if (shouldStop?.() === true) throw stoppedError()
          const started = performance.now()
          const { trace } = await engine.step(inputs[index]!)
          const whole = (performance.now() - started) / 1000
          if (round < 0 || step === 0) continue
          const times = timesOf(trace!)
          experiments[index]!.note(times)
          around.push(Math.max(0, whole - span(times)))
        }
        const turns = (round + warmupRounds) * engines.length + index + 1
        const done = Math.max(
          turns / ((rounds + warmupRounds) * engines.length),
          Math.min(1, spent / seconds),
        )
        onProgress?.(done, `round ${Math.max(0, round) + 1} of ${rounds}`)
      }
    }
  } finally {
    for (const engine of engines) await engine.stop()
  }
  return around.length === 0 ? 0 : median(around)
}

function timesOf(trace: readonly Float64Array[]): StepTimes {
  return trace.map((triples) => {
    const times = new Map<number, { readonly start: number; readonly end: number }>()
    for (let at = 0; at + 2 < triples.length; at += 3)
      times.set(triples[at]!, { start: triples[at + 1]!, end: triples[at + 2]! })
    return times
  })
}

function span(times: StepTimes): number {
  let [first, last] = [Number.POSITIVE_INFINITY, 0]
  for (const rank of times)
    for (const { start, end } of rank.values()) {
      first = Math.min(first, start)
      last = Math.max(last, end)
    }
  return last > first ? last - first : 0
}

/** Ids that every table has, and numbers with which no state goes astray. */
function inputOf(program: Program): StepInput {
  const rows = smallestTable(program.tasks)
  const tensors: Record<string, Int32Array> = {}
  const scalars: Record<string, number> = {}
  for (const port of stepPorts(program))
    if (port.kind === 'scalar') scalars[port.name] = port.name.startsWith('learningRate') ? 1e-9 : 1
    else {
      let word = 1
      tensors[port.name] = Int32Array.from({ length: port.elements }, () => {
        word = (Math.imul(word, 1664525) + 1013904223) >>> 0
        return Math.floor((word / 2 ** 32) * rows)
      })
    }
  return { tensors, scalars }
}

function smallestTable(tasks: readonly Task[]): number {
  let rows = 2 ** 31
  for (const task of tasks) {
    if (task.kind !== 'graph') continue
    for (const port of task.writes)
      if (port.kind === 'pack') for (const table of port.rows) rows = Math.min(rows, table.rows)
    const { values, nodes } = task.graph
    for (const node of nodes)
      if (node.op === 'gather') rows = Math.min(rows, values[node.inputs[0]!]!.type.shape[0]!)
      else if (node.op === 'scatterRows') rows = Math.min(rows, node.attributes.rows)
      else if (node.op === 'crossEntropy') rows = Math.min(rows, values[node.inputs[0]!]!.type.shape.at(-1)!)
  }
  return rows
}

function byOperation(
  found: readonly (readonly [string, MeasuredCollective])[],
): MeasuredTable['collectives'] {
  const table: Record<string, MeasuredCollective[]> = {}
  for (const [operation, entry] of found) {
    table[operation] ??= []
    table[operation].push(entry)
  }
  return table
}
