import { type Model, modelFromShortName } from '../../src/models/index.ts'
import { parsePlan, type ResolvedPlan, resolvePlan } from '../../src/plan/index.ts'
import {
  encodeInstructions,
  type Instruction,
  type LowerOptions,
  lowerPlan,
  type Program,
  type Role,
  readInstructions,
} from '../../src/program/index.ts'

export interface TinyPlan {
  readonly model?: 'gpt' | 'llama'
  readonly tied?: boolean
  readonly layers?: number
  /** Actors, which have one stage each unless the schedule gives them several. */
  readonly stages?: number
  /** Replicas of every actor, or of each. */
  readonly data?: number | readonly number[]
  readonly microbatches?: number
  /** Or as a plan says it. */
  readonly schedule?: 'gpipe' | '1f1b a' | '1f1b b' | Readonly<Record<string, unknown>>
  /** Null: none. */
  readonly clip?: number | null
  readonly bucket?: number
  /** Other keys of the plan. */
  readonly more?: Readonly<Record<string, unknown>>
}

/** A plan of a model just large enough to have everything, one sample for each replica where counts allow. */
export function tinyPlan(tiny: TinyPlan = {}): { plan: ResolvedPlan; model: Model } {
  const { stages = 2, data = 1, microbatches = 4, schedule = '1f1b a' } = tiny
  const layers = tiny.layers ?? stages
  const sizes = `layers=${layers},hidden=4,heads=2,context=4,vocab=8,mlp=4`
  const family = tiny.model ?? 'gpt'
  const name = `${family}:${sizes},tied=${tiny.tied ?? family === 'gpt'}${family === 'llama' ? ',kvHeads=1' : ''}`
  const [generator, warmup] = typeof schedule === 'string' ? schedule.split(' ') : []
  const replicas = typeof data === 'number' ? [data] : data
  const samples = microbatches * replicas.reduce(leastCommonMultiple, 1)
  const document = {
    meshwright: 1,
    model: name,
    mesh: { pipeline: stages, data },
    schedule:
      typeof schedule !== 'string'
        ? schedule
        : warmup === undefined
          ? generator
          : { name: generator, warmup },
    batch: { samples, microbatches },
    dtype: 'f64',
    clip: tiny.clip === undefined ? 1 : tiny.clip,
    reduction: { bucketBytes: tiny.bucket ?? 1024 },
    ...tiny.more,
  }
  const model = modelFromShortName(name)
  return { plan: resolvePlan(parsePlan(JSON.stringify(document)), model), model }
}

export function tinyProgram(tiny: TinyPlan = {}, options: LowerOptions = {}): Program {
  const { plan, model } = tinyPlan(tiny)
  return lowerPlan(plan, model, options)
}

function leastCommonMultiple(a: number, b: number): number {
  let multiple = a
  while (multiple % b !== 0) multiple += a
  return multiple
}

// Mutations -------------------------------------------------------------------------------------------------------

/** The program with another instruction list in one role. */
export function withInstructions(
  program: Program,
  role: number,
  change: (instructions: Instruction[]) => readonly Instruction[],
): Program {
  return withRole(program, role, (old) => ({
    ...old,
    code: encodeInstructions(change(readInstructions(old.code))),
  }))
}

export function withRole(program: Program, role: number, change: (role: Role) => Role): Program {
  return { ...program, roles: program.roles.map((old, index) => (index === role ? change(old) : old)) }
}

/** Places of the instructions that `test` picks. */
export function placesOf(role: Role, test: (instruction: Instruction) => boolean): number[] {
  return readInstructions(role.code).flatMap((instruction, index) => (test(instruction) ? [index] : []))
}

export function drop(instructions: readonly Instruction[], index: number): Instruction[] {
  return instructions.toSpliced(index, 1)
}

export function duplicate(instructions: readonly Instruction[], index: number): Instruction[] {
  return instructions.toSpliced(index, 0, instructions[index]!)
}

export function swap(instructions: readonly Instruction[], a: number, b: number): Instruction[] {
  return instructions.with(a, instructions[b]!).with(b, instructions[a]!)
}

/** The instruction at `from` to before the one that is at `to`. */
export function move(instructions: readonly Instruction[], from: number, to: number): Instruction[] {
  const rest = drop(instructions, from)
  return rest.toSpliced(from < to ? to - 1 : to, 0, instructions[from]!)
}

export function replace(
  instructions: readonly Instruction[],
  index: number,
  change: (instruction: Instruction) => Instruction,
): Instruction[] {
  return instructions.with(index, change(instructions[index]!))
}

export const isRun =
  (phase: string) =>
  (role: Role) =>
  (instruction: Instruction): boolean =>
    instruction.kind === 'run' &&
    instruction.action !== undefined &&
    role.actions[instruction.action]?.phase === phase

export function isSend(instruction: Instruction): boolean {
  return instruction.kind === 'exchange' && instruction.parts.every(({ direction }) => direction === 'send')
}

export function isRecv(instruction: Instruction): boolean {
  return instruction.kind === 'exchange' && instruction.parts.every(({ direction }) => direction === 'recv')
}
