import type { Engine, KindDifference } from '../engine/index.ts'
import { type Model, modelFromConfig } from '../models/index.ts'
import {
  type Miniature,
  miniaturePlan,
  type PlanDocument,
  type ResolvedPlan,
  setPlan,
} from '../plan/index.ts'
import {
  arenaBytes,
  lowerPlan,
  type Program,
  rolesByRank,
  type Verification,
  verifyProgram,
} from '../program/index.ts'
import { type Compiled, compile, learningRateOf, prepareData } from './prepare.ts'
import { Progress } from './progress.ts'
import { type LoadedPlan, resolveFor } from './setup.ts'

export interface RunReport {
  readonly steps: number
  readonly tolerance: number
  readonly differences: readonly KindDifference[]
  /** When a smaller plan ran in place of this one. */
  readonly miniature?: { readonly ranks: number; readonly model: string; readonly hides: readonly string[] }
}

export interface CheckReport {
  readonly source: string
  readonly model: Model
  readonly plan: ResolvedPlan
  readonly program: Program
  readonly verification: Verification
  /** Static arena of each rank. */
  readonly rankBytes: readonly number[]
  readonly run?: RunReport
  readonly ok: boolean
}

/** More ranks than this run as a miniature. */
const mostRanksRun = 16
const tolerance = 1e-9

export async function checkPlan(
  loaded: LoadedPlan,
  options: { readonly run: boolean; readonly steps: number },
): Promise<CheckReport> {
  const compiled = compile(loaded)
  const { plan, model } = compiled
  const program = lowerPlan(plan, model)
  const verification = verifyProgram(
    program,
    plan.deviceBytes === null ? {} : { budgetBytes: plan.deviceBytes },
  )
  // A learning rate that could not be followed is an error of the plan too.
  learningRateOf(loaded.document, options.steps)
  const base = {
    source: loaded.source,
    model,
    plan,
    program,
    verification,
    rankBytes: rolesByRank(program).map(arenaBytes),
  }
  if (!options.run || verification.findings.length > 0)
    return { ...base, ok: verification.findings.length === 0 }
  const run = await runBeside(compiled, loaded.directory, options.steps)
  return { ...base, run, ok: run.differences.every((difference) => difference.equal) }
}

/** The plan, or its miniature, and the serial plan side by side in float64. */
async function runBeside(compiled: Compiled, directory: string, steps: number): Promise<RunReport> {
  const small =
    compiled.plan.ranks.length > mostRanksRun ? miniaturePlan(compiled.plan, compiled.model) : undefined
  const document = setPlan(small?.plan ?? compiled.document, ['dtype=f64'])
  const model = small === undefined ? compiled.model : modelFromConfig(small.model)
  const actual: Compiled = { ...compiled, document, model, plan: resolveFor(document, model) }
  const expected = serial(actual)
  const { dataset } = await prepareData(actual, directory, { validationFraction: 0 })
  const { checkEquality, createLocalEngine, initialState } = await import('../engine/index.ts')
  const progress = new Progress('check')
  const engines: Engine[] = []
  // One by one, so that the first is stopped where the second does not fit this machine.
  const start = async (plan: ResolvedPlan): Promise<Engine> => {
    const engine = await createLocalEngine(lowerPlan(plan, model, { gradients: true }))
    engines.push(engine)
    return engine
  }
  try {
    const differences = await checkEquality({
      actual: await start(actual.plan),
      expected: await start(expected.plan),
      state: initialState({ model, optimizer: actual.optimizer, dtype: 'f64', seed: document.seed }),
      optimizer: actual.optimizer,
      learningRate: learningRateOf(document, steps),
      batches: Array.from({ length: steps }, (_, step) => copyBatch(dataset.batchAt(step))),
      tolerance,
      onStep: (step) => progress.update(step / steps, `step ${step + 1} of ${steps}, plan and serial`),
    })
    return {
      steps,
      tolerance,
      differences,
      ...(small === undefined ? {} : { miniature: describe(small, actual) }),
    }
  } finally {
    progress.clear()
    await Promise.all(engines.map((engine) => engine.stop()))
  }
}

/** One rank, the whole batch at once: what the plan must be equal to. */
export function serial(compiled: Compiled): Compiled {
  const document = serialDocument(compiled.document)
  return { ...compiled, document, plan: resolveFor(document, compiled.model) }
}

function serialDocument(document: PlanDocument): PlanDocument {
  return setPlan(document, [
    'mesh={"pipeline": 1, "data": 1}',
    'stages=null',
    'schedule=1f1b',
    'batch.microbatches=1',
    'memory.deviceBytes=null',
  ])
}

function describe(small: Miniature, actual: Compiled): NonNullable<RunReport['miniature']> {
  return { ranks: actual.plan.ranks.length, model: actual.model.name, hides: small.hides }
}

function copyBatch<T extends { readonly tokens: Int32Array; readonly labels: Int32Array }>(batch: T): T {
  return { ...batch, tokens: batch.tokens.slice(), labels: batch.labels.slice() }
}
