import {
  encodeInstructions,
  formatInstruction,
  type Instruction,
  type Program,
  type Role,
  readInstructions,
} from '../program/index.ts'

/**
 * A copy of the program in which one role issues its first two sends in the wrong order, and a sentence that says so.
 * The first is put off until after the second (with the free that follows it), so both values are there to be sent.
 */
export function swapTwoSends(program: Program): { program: Program; what: string } {
  const at = program.roles.findIndex((role) => sendsOf(role).length >= 2)
  const role = program.roles[at]
  if (role === undefined) throw new Error('internal: no role sends twice')
  const instructions = readInstructions(role.code)
  const [first, second] = sendsOf(role) as [number, number]
  const end = instructions[first + 1]?.kind === 'free' ? first + 2 : first + 1
  const late = instructions.slice(first, end)
  const swapped: Instruction[] = [
    ...instructions.slice(0, first),
    ...instructions.slice(end, second + 1),
    ...late,
    ...instructions.slice(second + 1),
  ]
  const roles = program.roles.map((other, index) =>
    index === at ? { ...role, code: encodeInstructions(swapped) } : other,
  )
  const [early, later] = [first, second].map((index) => formatInstruction(program, role, index))
  return { program: { ...program, roles }, what: `${role.name} now issues "${later}" before "${early}".` }
}

function sendsOf(role: Role): number[] {
  return readInstructions(role.code).flatMap((instruction, index) =>
    instruction.kind === 'exchange' && instruction.parts.every((part) => part.direction === 'send')
      ? [index]
      : [],
  )
}
