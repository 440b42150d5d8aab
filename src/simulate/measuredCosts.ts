import { type CollectiveOperation, collectiveOperations, type Task } from '../program/index.ts'
import { costError, join, readCount, readFields, readTable, readText, readTime } from './costDocument.ts'
import type { CostModel, RunContext } from './types.ts'

/** What something takes that grows with its size. */
export interface LineCost {
  readonly seconds: number
  readonly secondsPerByte: number
}

/** A collective among so many members, by its payload: what a rank takes from when the last has come. */
export interface MeasuredCollective extends LineCost {
  readonly members: number
}

/**
 * What a calibration run on a machine found, and the JSON document that keeps it. All times are seconds.
 *
 * - `tasks`: by hash of the task. A kernel goes over operands of any size: a line by the bytes of its first operand.
 * - `transfer.send`, `transfer.receive`: one thread copies a message into a channel, another out of it
 * - `wake`: until a rank that sleeps goes on after what it waited for
 * - `step`: around what the ranks do: until they have begun, and until it is known that they are done
 * - `collectives`: by operation, for each number of members that was measured
 * - `moves`: between the ports of a step and the ranks
 */
export interface MeasuredTable {
  readonly meshwrightCosts: 1
  readonly machine: {
    readonly name: string
    readonly cores: number
    /** Versions of what ran, such as `node` and `onnxruntime-node`. */
    readonly software: Readonly<Record<string, string>>
  }
  readonly tasks: Readonly<Record<string, LineCost>>
  readonly transfer: { readonly send: LineCost; readonly receive: LineCost }
  readonly wake: number
  /** Left out: nothing. */
  readonly step?: number
  readonly collectives: Readonly<Partial<Record<CollectiveOperation, readonly MeasuredCollective[]>>>
  readonly moves: { readonly in: LineCost; readonly out: LineCost }
}

/**
 * Reads a table that a calibration wrote.
 *
 * @throws MeshwrightError `SIMULATE_COSTS` with the path in the document
 */
export function readMeasuredTable(document: unknown): MeasuredTable {
  const given = readFields('', document, [
    'meshwrightCosts',
    'machine',
    'tasks',
    'transfer',
    'wake',
    'step',
    'collectives',
    'moves',
  ])
  if (given['meshwrightCosts'] !== 1)
    throw costError(
      'meshwrightCosts',
      'this is no table of measured costs of version 1',
      'measure again: it begins with "meshwrightCosts": 1',
    )
  const machine = readFields('machine', given['machine'], ['name', 'cores', 'software'])
  const transfer = readFields('transfer', given['transfer'], ['send', 'receive'])
  const moves = readFields('moves', given['moves'], ['in', 'out'])
  return {
    meshwrightCosts: 1,
    machine: {
      name: readText('machine.name', machine['name']),
      cores: readCount('machine.cores', machine['cores']),
      software: mapTable('machine.software', machine['software'], readText),
    },
    tasks: mapTable('tasks', given['tasks'], readLine),
    transfer: {
      send: readLine('transfer.send', transfer['send']),
      receive: readLine('transfer.receive', transfer['receive']),
    },
    wake: readTime('wake', given['wake']),
    ...(given['step'] === undefined ? {} : { step: readTime('step', given['step']) }),
    collectives: readCollectives(given['collectives']),
    moves: { in: readLine('moves.in', moves['in']), out: readLine('moves.out', moves['out']) },
  }
}

function readCollectives(value: unknown): MeasuredTable['collectives'] {
  const given = readFields('collectives', value, collectiveOperations)
  return mapTable('collectives', given, (path, list) => {
    if (!Array.isArray(list) || list.length === 0 || list.length > 1000)
      throw costError(path, `${path} is no list`, 'it has an entry for each number of members')
    return list.map((entry: unknown, index): MeasuredCollective => {
      const at = `${path}.${index}`
      const { members, ...line } = readFields(at, entry, ['members', 'seconds', 'secondsPerByte'])
      return { members: readCount(`${at}.members`, members), ...readLine(at, line) }
    })
  })
}

function readLine(path: string, value: unknown): LineCost {
  const given = readFields(path, value, ['seconds', 'secondsPerByte'])
  const perByte = given['secondsPerByte']
  return {
    seconds: readTime(join(path, 'seconds'), given['seconds']),
    secondsPerByte: perByte === undefined ? 0 : readTime(join(path, 'secondsPerByte'), perByte),
  }
}

function mapTable<T>(
  path: string,
  value: unknown,
  read: (path: string, value: unknown) => T,
): Readonly<Record<string, T>> {
  return Object.fromEntries(
    Object.entries(readTable(path, value)).map(([key, entry]) => [key, read(join(path, key), entry)]),
  )
}

/**
 * Costs as they were measured.
 *
 * @throws MeshwrightError `SIMULATE_COSTS` while simulating, for a task or collective that was not measured
 */
export function measuredCosts(table: MeasuredTable): CostModel {
  const { transfer, moves, wake, step = 0 } = table
  const tasks = new Map(Object.entries(table.tasks))
  const collectives = new Map(Object.entries(table.collectives))
  return {
    name: 'measured',
    wake,
    step,
    run: ({ task, readBytes }: RunContext) => {
      const line = tasks.get(task.hash)
      if (line === undefined) throw notMeasured(task)
      return onLine(line, readBytes)
    },
    transfer: (bytes) => ({
      busy: onLine(transfer.send, bytes),
      latency: 0,
      receive: onLine(transfer.receive, bytes),
    }),
    collective: (operation, payloadBytes, members) => {
      if (members === 1) return 0
      const measured = collectives.get(operation)
      if (measured === undefined)
        throw costError(`collectives.${operation}`, `${operation} was not measured`, 'measure this plan')
      return onLine(nearestMembers(measured, members), payloadBytes)
    },
    move: (direction, bytes) => onLine(moves[direction], bytes),
  }
}

function onLine({ seconds, secondsPerByte }: LineCost, bytes: number): number {
  return seconds + secondsPerByte * bytes
}

/** Of the numbers of members that were measured the nearest; of two as near the larger. */
function nearestMembers(measured: readonly MeasuredCollective[], members: number): MeasuredCollective {
  return measured.reduce((best, entry) => {
    const [near, other] = [Math.abs(best.members - members), Math.abs(entry.members - members)]
    return other < near || (other === near && entry.members > best.members) ? entry : best
  })
}

function notMeasured({ name, hash }: Task): Error {
  return costError(
    `tasks.${hash}`,
    `task ${name} was not measured`,
    'measure this plan on this machine: a table has the tasks of the plans that it was made for',
  )
}
