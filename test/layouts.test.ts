import { describe, expect, test } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator, createLocalEngine } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import { scheduleGenerators } from '../src/schedule/index.ts'
import { layoutCaseName, layoutCases, layoutPlan, type ScheduledLayoutCase } from './support/layoutCase.ts'
import { replay } from './support/replay.ts'
import {
  compilePlan,
  programOf,
  randomBatches,
  runOn,
  type StepRecord,
  stateOf,
} from './support/trainingCase.ts'

const full = process.env['MESHWRIGHT_FULL'] === '1'
const steps = 2
const tolerance = 1e-9
const cases = layoutCases(full)

/** Up to six ranks, each of which is a thread. */
function isSmall(one: ScheduledLayoutCase): boolean {
  return compilePlan(layoutPlan(one)).plan.ranks.length <= 6
}

const serialRuns = new Map<string, StepRecord[]>()

/** The same for all plans of a model and a batch. */
async function serialRun(compiled: Compiled): Promise<StepRecord[]> {
  const key = `${JSON.stringify(compiled.document.model)} ${compiled.plan.samples}`
  const found = serialRuns.get(key)
  if (found !== undefined) return found
  const run = await runOn('emulator', serial(compiled), randomBatches(compiled, steps))
  // A clip that does nothing would prove nothing.
  for (const { result } of run) expect(result.scalars['gradientNorm']).toBeGreaterThan(compiled.plan.clip!)
  serialRuns.set(key, run)
  return run
}

async function expectEqual(one: ScheduledLayoutCase, kind: 'emulator' | 'local'): Promise<void> {
  const compiled = compilePlan(layoutPlan(one))
  const program = programOf(compiled)
  const expected = await serialRun(compiled)
  const actual = kind === 'local' ? await createLocalEngine(program) : createEmulator(program)
  const differences = await checkEquality({
    actual,
    expected: replay(program, expected),
    state: stateOf(compiled),
    optimizer: compiled.optimizer,
    learningRate: learningRateOf(compiled.document, steps),
    batches: randomBatches(compiled, steps),
    tolerance,
  })
  await actual.stop()
  expect(differences.filter(({ equal }) => !equal)).toEqual([])
  const parameters = compiled.model.parameters.length
  expect(Object.fromEntries(differences.map(({ kind, count }) => [kind, count]))).toEqual({
    loss: 1,
    gradient: parameters,
    parameter: parameters,
    'optimizer state': parameters * compiled.optimizer.states.length,
  })
}

describe('every layout trains as serial training does', () => {
  test('under every schedule', () => {
    expect(new Set(cases.map(({ schedule }) => schedule))).toEqual(new Set(scheduleGenerators.keys()))
  })

  test.each(cases.map((one) => [layoutCaseName(one), one] as const))('%s', (_, one) =>
    expectEqual(one, 'emulator'),
  )
})

describe('in worker threads too', () => {
  // One of each kind of axes.
  const kinds = [
    ...new Map(cases.filter(isSmall).map((one) => [`${one.tensor} ${one.context}`, one])).values(),
  ]
  test.each(kinds.slice(0, 8).map((one) => [layoutCaseName(one), one] as const))('%s', (_, one) =>
    expectEqual(one, 'local'),
  )
})
