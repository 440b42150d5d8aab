import {
  encodeInstructions,
  formatInstruction,
  type Instruction,
  type Program,
  type Role,
  readInstructions,
} from '../program/index.ts'

/** A copy of the program in which one role issues its first two sends in the wrong order, and a sentence that says so. */
export function swapTwoSends(program: Program): { program: Program; what: string } {
  const at = program.roles.findIndex((role) => sendsOf(role).length >= 2)
  const role = program.roles[at]
  if (role === undefined) throw new Error('internal: no role sends twice')
  const instructions = readInstructions(role.code)
  const [first, second] = sendsOf(role) as [number, number]
  const texts = [first, second].map((index) => formatInstruction(program, role, index))
  const swapped: Instruction[] = [...instructions]
  swapped[first] = instructions[second]!
  swapped[second] = instructions[first]!
  // The value of the later send is made after the earlier place: bring what makes it along, or nothing would be there.
  const roles = program.roles.map((other, index) =>
    index === at ? { ...role, code: encodeInstructions(swapped) } : other,
  )
  return {
    program: { ...program, roles },
    what: `${role.name} now issues "${texts[1]}" before "${texts[0]}".`,
  }
}

function sendsOf(role: Role): number[] {
  return readInstructions(role.code).flatMap((instruction, index) =>
    instruction.kind === 'exchange' && instruction.parts.every((part) => part.direction === 'send') ? [index] : [],
  )
}
