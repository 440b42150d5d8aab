/** Small changes to programs, at random: what a person, a bug or a fuzzer would get wrong. */
import {
  type CollectivePart,
  encodeInstructions,
  type Instruction,
  inPlace,
  isInPlace,
  maySharePool,
  type Operand,
  type Program,
  type Role,
  readInstructions,
} from '../../src/program/index.ts'
import { type Choose, changeBuffer, changePack, changeTask } from './declarationMutations.ts'
import { drop, duplicate, move, swap } from './programs.ts'

type Mutator = (program: Program, choose: Choose) => Program

const one = <T>(items: readonly T[], choose: Choose): T => items[choose(items.length)]!

function atRole(
  program: Program,
  index: number,
  change: (role: Role, instructions: Instruction[]) => Partial<Role> | readonly Instruction[],
): Program {
  const role = program.roles[index]!
  const changed = change(role, readInstructions(role.code))
  const next = Array.isArray(changed)
    ? { ...role, code: encodeInstructions(changed) }
    : { ...role, ...(changed as Partial<Role>) }
  return { ...program, roles: program.roles.with(index, next) }
}

/** Another value of the role: mostly one that fits where this one stood. */
function otherValue(role: Role, value: number, choose: Choose): number {
  const type = (index: number): string => {
    const buffer = role.buffers[role.values[index]!.buffer]!
    return `${buffer.dtype} ${buffer.shape.reduce((product, size) => product * size, 1)}`
  }
  const alike = role.values
    .map((_, index) => index)
    .filter((index) => index !== value && type(index) === type(value))
  return alike.length === 0 || choose(8) === 0 ? choose(role.values.length) : one(alike, choose)
}

function changedPart(
  { source, result }: CollectivePart,
  change: <T extends Operand>(operand: T, at: number) => T,
  at: number,
): CollectivePart {
  return { source: change(source, 2 * at), result: change(result, 2 * at + 1) }
}

/** The instruction with its operands through `change`, which gets their places. */
function mapOperands(
  instruction: Instruction,
  change: <T extends Operand>(operand: T, at: number) => T,
): Instruction {
  switch (instruction.kind) {
    case 'run':
      return {
        ...instruction,
        reads: instruction.reads.map(change),
        writes: instruction.writes.map((write, at) => change(write, instruction.reads.length + at)),
      }
    case 'exchange':
      return { ...instruction, parts: instruction.parts.map(change) }
    case 'collective':
      return {
        ...instruction,
        parts: instruction.parts.map((part, at) =>
          isInPlace(part) ? inPlace(change(part.source, at)) : changedPart(part, change, at),
        ),
      }
    case 'move':
      return { ...instruction, value: change({ value: instruction.value }, 0).value }
    case 'free':
      return { ...instruction, values: instruction.values.map((value, at) => change({ value }, at).value) }
  }
}

function countOperands(instruction: Instruction): number {
  let count = 0
  mapOperands(instruction, (operand) => {
    count++
    return operand
  })
  return count
}

/** The instruction number `at` of those that `test` picks, changed. */
function changeOne(
  instructions: readonly Instruction[],
  choose: Choose,
  kinds: readonly Instruction['kind'][],
  change: (instruction: Instruction) => Instruction,
): Instruction[] {
  const places = instructions.flatMap(({ kind }, index) => (kinds.includes(kind) ? [index] : []))
  if (places.length === 0) return [...instructions]
  const place = one(places, choose)
  return instructions.with(place, change(instructions[place]!))
}

const withoutRegion = <T extends Operand>({ region: _, ...rest }: T): T => rest as T

const inRoles: Readonly<
  Record<
    string,
    (role: Role, list: Instruction[], choose: Choose, program: Program) => Partial<Role> | Instruction[]
  >
> = {
  operand: (role, list, choose) =>
    changeOne(list, choose, ['run', 'run', 'exchange', 'collective', 'move'], (instruction) => {
      const place = choose(countOperands(instruction))
      return mapOperands(instruction, (operand, at) =>
        at === place ? { ...operand, value: otherValue(role, operand.value, choose) } : operand,
      )
    }),
  /** Two values in each other's place, in a part of the list. */
  exchangeValues: (role, list, choose) => {
    const a = choose(role.values.length)
    const b = otherValue(role, a, choose)
    const [start, end] = [
      choose(4) === 0 ? choose(list.length) : 0,
      choose(4) === 0 ? choose(list.length) : list.length,
    ]
    return list.map((instruction, index) =>
      index < start || index >= end
        ? instruction
        : mapOperands(instruction, (operand) =>
            operand.value === a || operand.value === b
              ? { ...operand, value: operand.value === a ? b : a }
              : operand,
          ),
    )
  },
  twoOperands: (_, list, choose) =>
    changeOne(list, choose, ['run'], (instruction) => {
      if (instruction.kind !== 'run') return instruction
      const { reads, writes } = instruction
      if (choose(2) === 0 && writes.length > 1) {
        const [a, b] = [choose(writes.length), choose(writes.length)]
        return { ...instruction, writes: writes.with(a, writes[b]!).with(b, writes[a]!) }
      }
      const [a, b] = [choose(reads.length), choose(reads.length)]
      return { ...instruction, reads: reads.with(a, reads[b]!).with(b, reads[a]!) }
    }),
  region: (role, list, choose) =>
    changeOne(list, choose, ['run', 'exchange', 'collective'], (instruction) => {
      const place = choose(countOperands(instruction))
      const region = choose(role.regions.length + 1)
      return mapOperands(instruction, (operand, at) => {
        if (at !== place) return operand
        return region === role.regions.length ? withoutRegion(operand) : { ...operand, region }
      })
    }),
  moveBorder: (role, _list, choose) => {
    if (role.regions.length === 0) return {}
    const [at, by] = [choose(role.regions.length), choose(5) - 2]
    const border = choose(3)
    return {
      regions: role.regions.map(({ start, end }, index) =>
        index === at
          ? { start: border === 1 ? start : start + by, end: border === 0 ? end : end + by }
          : { start, end },
      ),
    }
  },
  port: (_, list, choose) =>
    changeOne(list, choose, ['move'], (instruction) => {
      const ports = list.flatMap((item) => (item.kind === 'move' ? [item.port] : []))
      return instruction.kind === 'move' ? { ...instruction, port: one(ports, choose) } : instruction
    }),
  task: (_, list, choose, { tasks }) =>
    changeOne(list, choose, ['run'], (instruction) =>
      instruction.kind === 'run' ? { ...instruction, task: choose(tasks.length) } : instruction,
    ),
  mode: (_, list, choose) =>
    changeOne(list, choose, ['run'], (instruction) =>
      instruction.kind === 'run'
        ? {
            ...instruction,
            writes: instruction.writes.map((write, at) =>
              at === choose(instruction.writes.length)
                ? { ...write, mode: write.mode === 'add' ? 'set' : 'add' }
                : write,
            ),
          }
        : instruction,
    ),
  action: (role, list, choose) =>
    changeOne(list, choose, ['run'], (instruction) => {
      if (instruction.kind !== 'run') return instruction
      const { action: _, ...rest } = instruction
      return choose(3) === 0 ? rest : { ...rest, action: choose(role.actions.length) }
    }),
  actions: (role, _list, choose) => {
    const [a, b] = [choose(role.actions.length), choose(role.actions.length)]
    return { actions: role.actions.with(a, role.actions[b]!).with(b, role.actions[a]!) }
  },
  peer: (role, list, choose) =>
    changeOne(list, choose, ['exchange'], (instruction) =>
      instruction.kind === 'exchange'
        ? {
            ...instruction,
            parts: instruction.parts.map((part) => ({ ...part, peer: choose(role.peers.length) })),
          }
        : instruction,
    ),
  /** As many rows of another place in each part. */
  partRegions: (_, list, choose) =>
    changeOne(list, choose, ['exchange'], (instruction) => {
      if (instruction.kind !== 'exchange') return instruction
      const regions = instruction.parts.map(({ region }) => region)
      return {
        ...instruction,
        parts: instruction.parts.map((part, index) => {
          const region = regions[(index + 1) % regions.length]
          return region === undefined ? withoutRegion(part) : { ...part, region }
        }),
      }
    }),
  collective: (_, list, choose, { groups }) =>
    changeOne(list, choose, ['collective'], (instruction) => {
      if (instruction.kind !== 'collective') return instruction
      if (choose(3) === 0 && instruction.reduce !== undefined)
        return { ...instruction, reduce: instruction.reduce === 'sum' ? 'max' : 'sum' }
      return { ...instruction, group: choose(groups.length) }
    }),
  /** Two collectives that reduce what the other should. */
  collectiveOperands: (_, list, choose) => {
    const places = list.flatMap(({ kind }, index) => (kind === 'collective' ? [index] : []))
    if (places.length < 2) return list
    const [a, b] = [one(places, choose), one(places, choose)]
    const [first, second] = [list[a]!, list[b]!]
    if (first.kind !== 'collective' || second.kind !== 'collective') return list
    return list.with(a, { ...first, parts: second.parts }).with(b, { ...second, parts: first.parts })
  },
  newCollective: (role, list, choose, { groups, streams }) => {
    if (groups.length === 0) return list
    const value = choose(role.values.length)
    const added: Instruction = {
      kind: 'collective',
      stream: streams.findIndex(({ name }) => name === 'reduce'),
      collective: 10_000,
      operation: 'allReduce',
      reduce: 'sum',
      group: choose(groups.length),
      parts: [inPlace({ value })],
    }
    return list.toSpliced(choose(list.length + 1), 0, added)
  },
  drop: (_, list, choose) => drop(list, choose(list.length)),
  duplicate: (_, list, choose) => duplicate(list, choose(list.length)),
  swap: (_, list, choose) => swap(list, choose(list.length), choose(list.length)),
  move: (_, list, choose) => move(list, choose(list.length), choose(list.length)),
  value: (role, _list, choose) => {
    const at = choose(role.values.length)
    const { microbatch, step, ...rest } = role.values[at]!
    const changed =
      microbatch !== undefined
        ? { ...rest, microbatch: choose(2) }
        : step !== undefined
          ? { ...rest, step: choose(2) }
          : { ...rest, ...(choose(2) === 0 ? { microbatch: choose(2) } : { slot: choose(2) }) }
    return { values: role.values.with(at, changed) }
  },
  bufferNames: (role, _list, choose) => {
    const [a, b] = [choose(role.buffers.length), choose(role.buffers.length)]
    const [first, second] = [role.buffers[a]!, role.buffers[b]!]
    return {
      buffers: role.buffers.with(a, { ...first, name: second.name }).with(b, { ...second, name: first.name }),
    }
  },
  buffer: (role, _list, choose) => {
    const at = choose(role.buffers.length)
    return { buffers: role.buffers.with(at, changeBuffer(role.buffers[at]!, choose)) }
  },
  pool: (role, _list, choose) => {
    if (choose(2) === 0)
      return { pools: role.pools.with(choose(role.pools.length), { slots: 1 + choose(3) }) }
    // A buffer takes turns with others, in slots that may be too few or already taken.
    const [a, b] = [choose(role.buffers.length), choose(role.buffers.length)]
    const [first, second] = [role.buffers[a]!, role.buffers[b]!]
    return maySharePool(first, second)
      ? { buffers: role.buffers.with(a, { ...first, pool: second.pool }) }
      : {}
  },
  pack: (role, _list, choose) => {
    const packs = role.buffers.flatMap(({ pack }, index) => (pack === undefined ? [] : [index]))
    const at = one(packs, choose)
    return { buffers: role.buffers.with(at, changePack(role.buffers[at]!, choose)) }
  },
}

const ofProgram: Readonly<Record<string, Mutator>> = {
  taskPorts: (program, choose) => {
    const at = choose(program.tasks.length)
    return { ...program, tasks: program.tasks.with(at, changeTask(program.tasks[at]!, choose)) }
  },
  group: (program, choose) => {
    if (program.groups.length === 0) return program
    const at = choose(program.groups.length)
    const { pipelines: _, ...group } = program.groups[at]!
    const axes = [['data'], ['pipeline'], ['pipeline', 'data']][choose(3)]!
    return { ...program, groups: program.groups.with(at, { ...group, axes }) }
  },
  /** A collective that nobody issues, and perhaps nobody's buffer asks for. */
  dropCollective: (program, choose) => {
    const ids = program.roles.flatMap(({ code }) =>
      readInstructions(code).flatMap((item) => (item.kind === 'collective' ? [item.collective] : [])),
    )
    const id = one(ids, choose)
    const forget = choose(2) === 0
    const roles = program.roles.map((role): Role => {
      const list = readInstructions(role.code)
      return {
        ...role,
        code: encodeInstructions(list.filter((item) => item.kind !== 'collective' || item.collective !== id)),
        buffers: forget
          ? role.buffers.map(({ sumOver: _, pack, ...rest }) => ({
              ...rest,
              ...(pack === undefined ? {} : { pack: pack.map(({ sumOver: __, ...entry }) => entry) }),
            }))
          : role.buffers,
      }
    })
    return { ...program, roles }
  },
  /** Two values with the same names on all ranks, in each other's place in all instructions of some kinds. */
  exchangeNames: (program, choose) => {
    const label = (role: Role, value: number): string => {
      const { buffer, microbatch, step } = role.values[value]!
      return `${role.buffers[buffer]!.name} ${microbatch} ${step}`
    }
    const role = one(program.roles, choose)
    const a = choose(role.values.length)
    const [first, second] = [label(role, a), label(role, otherValue(role, a, choose))]
    const kinds = [['exchange'], ['run'], ['move'], ['run', 'free'], ['exchange', 'move', 'free']][choose(5)]!
    return program.roles.reduce((changed, _, index) => {
      return atRole(changed, index, (there, list) => {
        const find = (name: string): number =>
          there.values.findIndex((__, value) => label(there, value) === name)
        const [x, y] = [find(first), find(second)]
        if (x < 0 || y < 0) return list
        return list.map((instruction) =>
          kinds.includes(instruction.kind)
            ? mapOperands(instruction, (operand) =>
                operand.value === x || operand.value === y
                  ? { ...operand, value: operand.value === x ? y : x }
                  : operand,
              )
            : instruction,
        )
      })
    }, program)
  },
  /** Both ends of all transfers between mirrored replicas. */
  mirrorPeers: (program) => ({
    ...program,
    roles: program.roles.map((role) => ({
      ...role,
      peers: role.peers.map((peer) => ({
        ...peer,
        axes: [{ name: 'data', scale: -1, offset: program.mesh.submeshes[0]![0]!.size - 1, divisor: 1 }],
      })),
    })),
  }),
}

/** Kinds of changes by name; those of a role may hit every role alike. */
export const mutationKinds: readonly string[] = [...Object.keys(inRoles), ...Object.keys(ofProgram)]

export function mutate(program: Program, kind: string, choose: Choose): Program {
  const mutator = ofProgram[kind]
  if (mutator !== undefined) return mutator(program, choose)
  const change = inRoles[kind]!
  const isEverywhere = choose(3) === 0
  if (!isEverywhere)
    return atRole(program, choose(program.roles.length), (role, list) => change(role, list, choose, program))
  const numbers = Array.from({ length: 12 }, () => choose(10_000))
  return program.roles.reduce((changed, _, index) => {
    let next = 0
    const again: Choose = (count) => (count <= 1 ? 0 : numbers[next++ % numbers.length]! % count)
    return atRole(changed, index, (role, list) => change(role, list, again, program))
  }, program)
}
