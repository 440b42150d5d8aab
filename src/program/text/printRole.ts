import { arenaBytes, slotBytes } from '../accesses.ts'
import { readInstructions } from '../columns.ts'
import { roleRanks } from '../mesh.ts'
import { assignSlots } from '../slots.ts'
import type { BufferSpec, Constant, Instruction, PackBlock, Program, Role, Shard } from '../types.ts'
import { formatAction, instructionParts } from './instruction.ts'
import { formatValue } from './operands.ts'
import { printName } from './tokens.ts'

/** A line longer than this is broken where it can be. */
const lineWidth = 110

export function printRole(program: Program, role: Role, full: boolean): string[] {
  const instructions = readInstructions(role.code)
  return [
    `${printHead(role)}  # ${describeRanks(roleRanks(program.mesh, role))}, ${arenaBytes(role)} bytes of buffers`,
    ...printBuffers(role, full),
    ...printSlots(role, instructions),
    '',
    ...printInstructions(program, role, instructions),
  ]
}

function printHead(role: Role): string {
  const { name, pipeline, where } = role
  const condition = where === undefined ? '' : ` ${printName(where.axis)}%${where.modulus}=${where.remainder}`
  const named = name === roleName(role)
  return `role pipeline=${pipeline}${condition}${named ? '' : ` named ${printName(name)}`}`
}

/** Name of a role that is not given one. */
export function roleName({ pipeline, where }: Pick<Role, 'pipeline' | 'where'>): string {
  return `pipeline=${pipeline}${where === undefined ? '' : ` ${where.axis}%${where.modulus}=${where.remainder}`}`
}

function printBuffers(role: Role, full: boolean): string[] {
  const names = role.buffers.map((buffer) => `${printName(buffer.name)}:`)
  const types = role.buffers.map(({ dtype, shape }) => `${dtype}[${shape.join(', ')}]`)
  const nameWidth = Math.max(0, ...names.map((name) => name.length))
  const typeWidth = Math.max(0, ...types.map((type) => type.length))
  const kinds = role.buffers.map((buffer, index) => {
    const first = role.buffers.findIndex(({ pool }) => pool === buffer.pool)
    const place =
      first === index ? `x ${slotsOf(role, buffer)}` : `with ${printName(role.buffers[first]!.name)}`
    return place + bufferKind(buffer)
  })
  const kindWidth = Math.max(0, ...kinds.map((kind) => kind.length))
  return role.buffers.flatMap((buffer, index) => {
    const typed = `${names[index]!.padEnd(nameWidth)} ${types[index]!.padEnd(typeWidth)}`
    const note = `${slotBytes(buffer)} bytes${slotsOf(role, buffer) === 1 ? '' : ' each'}`
    const tensors = buffer.pack === undefined || full ? '' : `, ${buffer.pack.length} tensors`
    const entries = full ? (buffer.pack ?? []) : []
    return [
      `  buffer ${typed} ${kinds[index]!.padEnd(kindWidth)}  # ${note}${tensors}`,
      ...entries.map(({ name, shape, offset, block, owned, sumOver }) => {
        const type = `${printName(name)} [${shape.join(', ')}]${blockText(block)}`
        return `    at ${offset}: ${type}${owned ? ' owned' : ''}${sumText(sumOver)}`
      }),
    ]
  })
}

function slotsOf({ pools }: Role, { pool }: BufferSpec): number {
  return pools[pool]?.slots ?? 0
}

function sumText(group: string | undefined): string {
  return group === undefined ? '' : ` sum over ${printName(group)}`
}

function shardText(shard: Shard | undefined): string {
  if (shard === undefined) return ''
  const segments = shard.segments.map(({ start, end }) => `${start}:${end}`)
  return ` sharded over ${shard.axes.map(printName).join(', ')} in ${segments.join(', ')}`
}

/** Each dim, and behind it the axes that cut it. */
function blockText(block: PackBlock | undefined): string {
  if (block === undefined) return ''
  const dims = block.shape.map((size, dim) => [size, ...(block.axes[dim] ?? []).map(printName)].join('/'))
  return ` block [${dims.join(', ')}]`
}

function constantText(constant: Constant | undefined): string {
  if (constant === undefined) return ''
  if ('start' in constant) {
    const { axes, step } = constant.start
    return ` constant ${step} * place${axes.length === 0 ? '' : ` along ${axes.map(printName).join(', ')}`}`
  }
  const zeros = constant.isZero.map((axis) => `${printName(axis)}=0`)
  return zeros.length === 0 ? ' constant' : ` constant ${zeros.join(', ')}`
}

function bufferKind({
  state,
  frozen,
  tier,
  constant,
  sumOver,
  shard,
  unsynced,
  windowed,
}: BufferSpec): string {
  const words = [
    ...(state === true ? [frozen === true ? ' state frozen' : ' state'] : []),
    ...(tier === 'host' ? [' host'] : []),
    constantText(constant),
    ...(windowed === true ? [' windowed'] : []),
    shardText(shard),
    sumText(sumOver),
    ...(unsynced === true ? [' unsynced'] : []),
  ]
  return words.join('')
}

/** Slots that do not follow from the order of instructions, in the order in which these name the values. */
function printSlots(role: Role, instructions: readonly Instruction[]): string[] {
  const { slots } = assignSlots(role.buffers, role.values, instructions)
  return [...new Set(instructions.flatMap(valuesOf))].flatMap((value) => {
    const slot = role.values[value]?.slot
    return slot === undefined || slot === slots[value] ? [] : [`  slot ${formatValue(role, value)} ${slot}`]
  })
}

function valuesOf(instruction: Instruction): number[] {
  switch (instruction.kind) {
    case 'run':
      return [...instruction.reads, ...instruction.writes].map(({ value }) => value)
    case 'exchange':
      return instruction.parts.map(({ value }) => value)
    case 'collective':
      return instruction.parts.flatMap(({ source, result }) => [source.value, result.value])
    case 'move':
      return [instruction.value]
    case 'free':
      return [...instruction.values]
  }
}

function printInstructions(program: Program, role: Role, instructions: readonly Instruction[]): string[] {
  const streams = program.streams.map((stream) => printName(stream.name))
  const width = Math.max(0, ...streams.map((name) => name.length))
  const lines: string[] = []
  for (let index = 0; index < instructions.length; ) {
    const instruction = instructions[index++]!
    const head = instruction.kind === 'free' ? '' : `${(streams[instruction.stream] ?? '?').padEnd(width)} `
    const parts = instructionParts(program, role, instruction)
    if (instruction.kind === 'run' && instruction.action !== undefined) {
      const action = role.actions[instruction.action]
      parts.push(`for ${action === undefined ? '?' : formatAction(action)}`)
    }
    for (; instructions[index]?.kind === 'free'; index++)
      parts.push(`; ${instructionParts(program, role, instructions[index]!).join(' ')}`)
    lines.push(...wrap(`  ${head}`, parts, ' '.repeat(width + 5)))
  }
  return lines
}

/** Parts on as few lines as hold them, never broken inside. */
function wrap(head: string, parts: readonly string[], indent: string): string[] {
  const lines = [head + (parts[0] ?? '')]
  for (const part of parts.slice(1)) {
    const joined = `${lines.at(-1)} ${part}`
    if (joined.length <= lineWidth) lines[lines.length - 1] = joined
    else lines.push(indent + part)
  }
  return lines
}

function describeRanks(ranks: readonly number[]): string {
  if (ranks.length === 0) return 'no ranks'
  const first = ranks[0]!
  const last = ranks.at(-1)!
  const count = `${ranks.length} rank${ranks.length === 1 ? '' : 's'}`
  if (ranks.length > 2 && last - first === ranks.length - 1) return `${count}: ${first}..${last}`
  return `${count}: ${ranks.length > 8 ? `${ranks.slice(0, 8).join(',')},…` : ranks.join(',')}`
}
