import type { Action } from '../../schedule/index.ts'
import { readInstruction } from '../columns.ts'
import type { Instruction, Program, Role, TransferPart } from '../types.ts'
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
    case 'collective': {
      const group = program.groups[instruction.group]
      const over = group === undefined ? '?' : printName(group.name)
      const operand = formatOperand(role, instruction.operand)
      return [`all-reduce #${instruction.collective} ${instruction.reduce} ${operand} over ${over}`]
    }
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
