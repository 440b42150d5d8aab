/** What the verifier has against changed programs, and where to change them. */
import { type Instruction, type Program, verifyProgram } from '../../src/program/index.ts'
import { isRun, placesOf, withInstructions } from './programs.ts'

/** Codes of what is found, each once, sorted. */
export function codes(program: Program, options: Parameters<typeof verifyProgram>[1] = {}): string[] {
  return [...new Set(verifyProgram(program, options).findings.map(({ code }) => code))].sort()
}

/** Codes for the program with another instruction list in one role. */
export function changed(
  program: Program,
  role: number,
  change: (instructions: Instruction[]) => readonly Instruction[],
): string[] {
  return codes(withInstructions(program, role, change))
}

/** Place of the `nth` instruction of a role that `test` picks. */
export function place(
  program: Program,
  role: number,
  test: (instruction: Instruction) => boolean,
  nth = 0,
): number {
  const found = placesOf(program.roles[role]!, test)[nth]
  if (found === undefined) throw new Error(`no instruction ${nth} of that kind`)
  return found
}

/** Place of the `nth` run of a phase. */
export function runPlace(program: Program, role: number, phase: string, nth = 0): number {
  return place(program, role, isRun(phase)(program.roles[role]!), nth)
}

export function ofTask(program: Program, name: string): (instruction: Instruction) => boolean {
  return (instruction) => instruction.kind === 'run' && program.tasks[instruction.task]!.name === name
}

export function isCollective({ kind }: Instruction): boolean {
  return kind === 'collective'
}

export function isFree({ kind }: Instruction): boolean {
  return kind === 'free'
}
