import type { Action } from '../../schedule/index.ts'
import { isInPlace } from '../accesses.ts'
import { readInstruction } from '../columns.ts'
import type { CollectiveOperation, Instruction, Program, Role, TransferPart } from '../types.ts'
import { formatOperand, formatOperands, formatPeer, formatValue } from './operands.ts'
import { printName } from './tokens.ts'

/** One instruction of a role as a line, without its stream. */
export function formatInstruction(program: Program, role: Role, index: number): string {
  return instructionParts(program, role, readInstruction(role.code, index)).join(' ')
}

/** The text of an instruction, cut where a line may end. */
export function instructionParts(program: Program, role: Role, instruction: Instruction): string[] {
  switch (instruction.kind) {
    case 'run': {
      const task = program.tasks[instruction.task]
      const reads = formatOperands(role, instruction.reads)
      const writes = formatOperands(role, instruction.writes, ({ mode }) => (mode === 'add' ? ' +=' : ''))
      return [
        ['run', task === undefined ? '?' : printName(task.name), ...reads].join(' '),
        ['->', ...writes].join(' '),
      ]
    }
    case 'exchange': {
      const parts = instruction.parts.map((part) => formatPart(role, part))
      if (parts.length === 1) return parts
      return parts.length === 0
        ? ['exchange']
        : parts.map((part, index) => (index === 0 ? `exchange ${part}` : `| ${part}`))
    }
    case 'collective':
      return collectiveParts(program, role, instruction)
    case 'move': {
      const value = formatValue(role, instruction.value)
      const port = printName(instruction.port)
      return [instruction.direction === 'in' ? `move in ${port} -> ${value}` : `move out ${value} -> ${port}`]
    }
    case 'free':
      return [
        [
          'free',
          ...formatOperands(
            role,
            instruction.values.map((value) => ({ value })),
          ),
        ].join(' '),
      ]
  }
}

/** Words of the text form. */
export const collectiveVerbs: Readonly<Record<CollectiveOperation, string>> = {
  allReduce: 'all-reduce',
  reduceScatter: 'reduce-scatter',
  allGather: 'all-gather',
  broadcast: 'broadcast',
  reduce: 'reduce',
  gather: 'gather',
  scatter: 'scatter',
  allToAll: 'all-to-all',
  permute: 'permute',
}

/** `all-reduce #6 sum g0{0:8} over data`, `all-gather #7 w0[t] -> p0[u0] | w1[t] -> p1[u0] over data` */
function collectiveParts(
  program: Program,
  role: Role,
  { operation, collective, reduce, group, parts, root, shift }: Extract<Instruction, { kind: 'collective' }>,
): string[] {
  const over = program.groups[group]
  const head = [collectiveVerbs[operation], `#${collective}`, ...(reduce === undefined ? [] : [reduce])]
  const pairs = parts.map((part, index) => {
    const source = formatOperand(role, part.source)
    const result = `${formatOperand(role, part.result)}${part.result.mode === 'add' ? ' +=' : ''}`
    const pair = isInPlace(part) && part.result.mode === 'set' ? source : `${source} -> ${result}`
    return index === 0 ? [...head, pair].join(' ') : `| ${pair}`
  })
  const tail = [
    `over ${over === undefined ? '?' : printName(over.name)}`,
    ...(root === undefined ? [] : [`root ${root}`]),
    ...(shift === undefined ? [] : [`shift ${shift}`]),
  ]
  const last = pairs.pop() ?? head.join(' ')
  return [...pairs, [last, ...tail].join(' ')]
}

function formatPart(role: Role, part: TransferPart): string {
  const peer = formatPeer(role.peers[part.peer])
  const preposition = part.direction === 'send' ? 'to' : 'from'
  return `${part.direction} #${part.transfer} ${formatOperand(role, part)} ${preposition} ${peer}`
}

/** `F stage 0 m3`: phase, stage, micro-batch; then slice and unit where there are some. */
export function formatAction(action: Action): string {
  const slice = action.slice === undefined ? '' : ` slice ${action.slice}`
  const unit = action.unit === undefined ? '' : ` unit ${action.unit}`
  return `${printName(action.phase)} stage ${action.stage} m${action.microbatch}${slice}${unit}`
}
