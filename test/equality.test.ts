import { describe, expect, test } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import type { Compiled } from '../src/cli/prepare.ts'
import { learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator, createLocalEngine, type Engine } from '../src/engine/index.ts'
import { checkEquality, type KindDifference } from '../src/engine/training/equality.ts'
import { encodeInstructions, type Instruction, type Program, readInstructions } from '../src/program/index.ts'
import { type Factors, pairwiseSubset, wholeGrid } from './support/pairwise.ts'
import { replay } from './support/replay.ts'
import {
  compilePlan,
  nameOf,
  planOf,
  programOf,
  randomBatches,
  runOn,
  type StepRecord,
  stateOf,
  type TrainingCase,
} from './support/trainingCase.ts'

const full = process.env['MESHWRIGHT_FULL'] === '1'
const steps = 3
const tolerance = 1e-9

const factors: Factors<TrainingCase> = {
  family: ['gpt', 'llama', 'moe'],
  tied: [true, false],
  stages: [1, 2, 3, 4],
  replicas: [[1], [2], [2, 1], [1, 2], [3, 1]],
  microbatches: [1, 2, 5, 8],
  schedule: ['gpipe', '1f1b a', '1f1b b'],
  cut: ['by cost', 'first', 'last'],
  optimizer: ['adamw', 'sgd'],
}

/** One stage has neither unequal replicas nor different cuts. */
const allowed = ({ stages, replicas, cut }: TrainingCase): boolean =>
  stages > 1 || (replicas.length === 1 && cut === 'by cost')

const pairwise = pairwiseSubset(factors, allowed)
const pairwiseNames = new Set(pairwise.map(nameOf))
/** The whole grid with one optimizer: how a parameter is updated is apart from everything else. */
const whole = wholeGrid({ ...factors, optimizer: ['adamw'] }, allowed)
const cases = full ? [...pairwise, ...whole.filter((one) => !pairwiseNames.has(nameOf(one)))] : pairwise

const serialRuns = new Map<string, StepRecord[]>()

/** Serial training of a case: the same whatever the plan's mesh, cut and schedule, so run once. */
async function serialRun(one: TrainingCase, compiled: Compiled): Promise<StepRecord[]> {
  const { family, tied, stages, optimizer } = one
  const key = JSON.stringify([family, tied, stages, optimizer, compiled.plan.samples])
  const known = serialRuns.get(key)
  if (known !== undefined) return known
  const run = await runOn('local', serial(compiled), randomBatches(compiled, steps))
  serialRuns.set(key, run)
  return run
}

async function compare(
  engine: Engine,
  expected: readonly StepRecord[],
  compiled: Compiled,
): Promise<KindDifference[]> {
  try {
    return await checkEquality({
      actual: engine,
      expected: replay(engine.program, expected),
      state: stateOf(compiled),
      optimizer: compiled.optimizer,
      learningRate: learningRateOf(compiled.document, steps),
      batches: randomBatches(compiled, steps),
      tolerance,
    })
  } finally {
    await engine.stop()
  }
}

describe('a plan equals serial training', () => {
  test.each(cases.map((one) => [nameOf(one), one] as const))('%s', async (name, one) => {
    const compiled = compilePlan(planOf(one))
    const program = programOf(compiled)
    const expected = await serialRun(one, compiled)
    // A clip that does nothing would prove nothing.
    for (const { result } of expected)
      expect(result.scalars['gradientNorm']).toBeGreaterThan(compiled.plan.clip!)
    const engines = [await createLocalEngine(program)]
    if (pairwiseNames.has(name)) engines.push(createEmulator(program))
    const parameters = compiled.model.parameters.length
    for (const engine of engines) {
      const differences = await compare(engine, expected, compiled)
      expect(differences.filter(({ equal }) => !equal)).toEqual([])
      expect(Object.fromEntries(differences.map(({ kind, count }) => [kind, count]))).toEqual({
        loss: 1,
        gradient: parameters,
        parameter: parameters,
        'optimizer state': parameters * compiled.optimizer.states.length,
      })
    }
  })
})

describe('the comparison finds', () => {
  const one: TrainingCase = {
    family: 'gpt',
    tied: true,
    stages: 2,
    replicas: [2],
    microbatches: 2,
    schedule: '1f1b a',
    cut: 'by cost',
    optimizer: 'adamw',
  }

  async function unequal(mutate: (program: Program) => Program): Promise<string[]> {
    const compiled = compilePlan(planOf(one))
    const engine = await createLocalEngine(mutate(programOf(compiled)))
    const differences = await compare(engine, await serialRun(one, compiled), compiled)
    return differences.filter(({ equal }) => !equal).map(({ kind }) => kind)
  }

  const rewrite = (
    program: Program,
    change: (instruction: Instruction, program: Program) => Instruction[],
  ): Program => ({
    ...program,
    roles: program.roles.map((role) => ({
      ...role,
      code: encodeInstructions(
        readInstructions(role.code).flatMap((instruction) => change(instruction, program)),
      ),
    })),
  })

  test('nothing in the program as it is', async () => {
    expect(await unequal((program) => program)).toEqual([])
  })

  test('a reduction that is left out', async () => {
    const found = await unequal((program) =>
      rewrite(program, (instruction) =>
        instruction.kind === 'collective' && program.groups[instruction.group]!.name === 'data'
          ? []
          : [instruction],
      ),
    )
    expect(found).toContain('gradient')
    expect(found).toContain('parameter')
  })

  test('gradients that do not add up over micro-batches', async () => {
    const found = await unequal((program) =>
      rewrite(program, (instruction) => {
        if (instruction.kind !== 'run' || instruction.action === undefined) return [instruction]
        return [
          { ...instruction, writes: instruction.writes.map((write) => ({ ...write, mode: 'set' as const })) },
        ]
      }),
    )
    expect(found).toContain('gradient')
  })
})
