import { bytesPerElement, type FloatDType, isFloat } from '../../graph/index.ts'
import {
  type CollectiveOperation,
  collectiveBlocks,
  collectiveOperations,
  collectivePayloadBytes,
  coordinatesOf,
  groupRanks,
  operandBytes,
  type Program,
  type Role,
  readInstructions,
  roleRanks,
} from '../../program/index.ts'
import { evenly } from './lines.ts'

/** Collectives that should take equally long. */
export interface CollectiveClass {
  readonly operation: CollectiveOperation
  readonly reduce: 'sum' | 'max'
  readonly members: number
  readonly dtype: 'f32' | 'f64' | 'i32'
  /** Elements of a member's source and of its result, part by part; `inPlace` where both are the same rows. */
  readonly parts: readonly {
    readonly source: number
    readonly result: number
    readonly mode: 'set' | 'add'
    readonly inPlace: boolean
  }[]
  readonly payloadBytes: number
  /** How many of them a step has. */
  readonly count: number
}

/** Payloads of programs, each once with how many a step has. */
export interface Payloads {
  readonly messages: readonly { readonly bytes: number; readonly count: number }[]
  readonly collectives: readonly CollectiveClass[]
}

/** So many sizes of messages, and of each kind of collective, are timed. */
const mostSizes = 8
const reducing: readonly CollectiveOperation[] = ['allReduce', 'reduceScatter', 'reduce']

/** What the ranks of some programs say to each other, and the smallest that they could say. */
export function collectPayloads(programs: readonly Program[], cores: number): Payloads {
  const messages = new Map<number, number>([[64, 0]])
  const classes = new Map<string, CollectiveClass>()
  const add = (found: CollectiveClass): void => {
    const key = JSON.stringify({ ...found, count: 0 })
    classes.set(key, { ...found, count: found.count + (classes.get(key)?.count ?? 0) })
  }
  for (const program of programs)
    for (const role of program.roles) {
      const [first] = roleRanks(program.mesh, role)
      if (first === undefined) continue
      const ranks = roleRanks(program.mesh, role).length
      const own = coordinatesOf(program.mesh, first)
      for (const instruction of readInstructions(role.code))
        if (instruction.kind === 'exchange')
          for (const part of instruction.parts) {
            if (part.direction === 'recv') continue
            const bytes = operandBytes(role, part)
            messages.set(bytes, (messages.get(bytes) ?? 0) + ranks)
          }
        else if (instruction.kind === 'collective') {
          const members = groupRanks(program.mesh, own, program.groups[instruction.group]!).length
          if (members > 1) add(classOf(role, instruction, members, Math.min(members, cores), ranks))
        }
    }
  return { messages: chooseSizes(messages), collectives: chooseCollectives([...classes.values()]) }
}

type Collective = Parameters<typeof collectivePayloadBytes>[1] & {
  readonly operation: CollectiveOperation
  readonly reduce?: 'sum' | 'max' | 'mean'
}

/** Among at most `measured` members, as large on the whole. */
function classOf(
  role: Role,
  instruction: Collective,
  members: number,
  measured: number,
  ranks: number,
): CollectiveClass {
  const { operation, parts } = instruction
  const blocks = collectiveBlocks(operation, measured)
  const dtype = role.buffers[role.values[parts[0]!.source.value]!.buffer]!.dtype
  const given = dtype === 'bool' ? 'i32' : dtype
  return {
    operation,
    reduce: instruction.reduce === 'max' ? 'max' : 'sum',
    members: measured,
    dtype: given,
    parts: parts.map(({ source, result }) => {
      const whole = Math.max(operandBytes(role, source), operandBytes(role, result)) / bytesPerElement[given]
      const block = Math.max(1, Math.floor(whole / Math.max(blocks.source, blocks.result)))
      return {
        source: block * blocks.source,
        result: block * blocks.result,
        mode: result.mode,
        inPlace: source.value === result.value && blocks.source === blocks.result,
      }
    }),
    payloadBytes: collectivePayloadBytes(role, instruction),
    count: ranks / members,
  }
}

function chooseSizes(counts: ReadonlyMap<number, number>): Payloads['messages'] {
  const sizes = [...counts].map(([bytes, count]) => ({ bytes, count })).toSorted((a, b) => a.bytes - b.bytes)
  return evenly(sizes, mostSizes)
}

/** Of each operation among so many members some of all sizes, and one of a single element a member. */
function chooseCollectives(classes: readonly CollectiveClass[]): CollectiveClass[] {
  return collectiveOperations.flatMap((operation) => {
    const own = classes.filter((one) => one.operation === operation)
    const sizes = [...new Set(own.map(({ members }) => members))].toSorted((a, b) => a - b)
    return sizes.flatMap((members) => {
      const alike = own
        .filter((one) => one.members === members)
        .toSorted((a, b) => a.payloadBytes - b.payloadBytes)
      return [smallest(operation, members, alike[0]!), ...evenly(alike, mostSizes)]
    })
  })
}

function smallest(operation: CollectiveOperation, members: number, like: CollectiveClass): CollectiveClass {
  const { source, result } = collectiveBlocks(operation, members)
  const dtype: FloatDType = reducing.includes(operation) && isFloat(like.dtype) ? like.dtype : 'f32'
  return {
    operation,
    reduce: like.reduce,
    members,
    dtype,
    parts: [{ source, result, mode: 'set', inPlace: source === result }],
    payloadBytes: Math.max(source, result) * bytesPerElement[dtype],
    count: 0,
  }
}
