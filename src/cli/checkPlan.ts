import type { Engine, KindDifference } from '../engine/index.ts'
import { type Model, modelFromConfig } from '../models/index.ts'
import { miniaturePlan, type PlanDocument, type ResolvedPlan, setPlan } from '../plan/index.ts'
import {
  arenaBytes,
  lowerPlan,
  type Program,
  rolesByRank,
  type Verification,
  verifyProgram,
} from '../program/index.ts'
import { type Compiled, compile, learningRateOf, lowerVerified, prepareData } from './prepare.ts'
import { Progress } from './progress.ts'
import { type LoadedPlan, resolveFor } from './setup.ts'
import { paint } from './style.ts'

export interface RunReport {
  readonly steps: number
  readonly tolerance: number
  readonly differences: readonly KindDifference[]
  /** When a smaller plan ran in place of this one. */
  readonly miniature?: {
    readonly ranks: number
    readonly model: string
    /** Why the plan itself did not run. */
    readonly why: string
    readonly hides: readonly string[]
  }
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

/** Two verified programs in float64 that must do the same. */
interface Pair {
  readonly actual: Compiled
  readonly programs: { readonly actual: Program; readonly serial: Program }
  readonly miniature?: NonNullable<RunReport['miniature']>
}

/** The plan, or its miniature, and the serial plan side by side in float64. */
async function runBeside(compiled: Compiled, directory: string, steps: number): Promise<RunReport> {
  const { checkEquality, createLocalEngine, initialState, memoryWarning, roomProblem } = await import(
    '../engine/index.ts'
  )
  const { actual, programs, miniature } = choosePair(compiled, (them) => roomProblem(them)?.message)
  const { document, model, optimizer } = actual
  const warning = memoryWarning([programs.actual, programs.serial])
  if (warning !== undefined) process.stderr.write(`${paint.yellow('note')} ${warning}\n`)
  const { dataset } = await prepareData(actual, directory, { validationFraction: 0 })
  const progress = new Progress('check')
  const engines: Engine[] = []
  // One by one, so that the first is stopped where the second does not start.
  const start = async (program: Program): Promise<Engine> => {
    const engine = await createLocalEngine(program)
    engines.push(engine)
    return engine
  }
  try {
    const differences = await checkEquality({
      actual: await start(programs.actual),
      expected: await start(programs.serial),
      state: initialState({ model, optimizer, dtype: 'f64', seed: document.seed }),
      optimizer,
      learningRate: learningRateOf(document, steps),
      batches: Array.from({ length: steps }, (_, step) => copyBatch(dataset.batchAt(step))),
      tolerance,
      onStep: (step) => progress.update(step / steps, `step ${step + 1} of ${steps}, plan and serial`),
    })
    return { steps, tolerance, differences, ...(miniature === undefined ? {} : { miniature }) }
  } finally {
    progress.clear()
    await Promise.all(engines.map((engine) => engine.stop()))
  }
}

/** The plan itself where it has few ranks and there is room for it and its serial counterpart, else its miniature. */
function choosePair(
  compiled: Compiled,
  problemOf: (programs: readonly Program[]) => string | undefined,
): Pair {
  const ranks = compiled.plan.ranks.length
  if (ranks > mostRanksRun)
    return miniaturePair(compiled, `the plan has ${ranks} ranks, and at most ${mostRanksRun} are run`)
  const whole = makePair(compiled, compiled.document, compiled.model)
  const { actual, serial } = whole.programs
  const alone = problemOf([serial])
  if (alone !== undefined) return miniaturePair(compiled, `serially in float64, ${alone}`)
  const together = problemOf([actual, serial])
  return together === undefined ? whole : miniaturePair(compiled, `in float64, ${together}`)
}

function miniaturePair(compiled: Compiled, why: string): Pair {
  const small = miniaturePlan(compiled.plan, compiled.model)
  const pair = makePair(compiled, small.plan, modelFromConfig(small.model))
  const { plan, model } = pair.actual
  const miniature = { ranks: plan.ranks.length, model: model.name, why, hides: small.hides }
  return { ...pair, miniature }
}

function makePair(compiled: Compiled, plan: PlanDocument, model: Model): Pair {
  const document = setPlan(plan, ['dtype=f64'])
  const actual: Compiled = { ...compiled, document, model, plan: resolveFor(document, model) }
  // Both give their gradients. The budget is the plan's, at its own dtype, and says nothing about these.
  const lower = (one: Compiled): Program => lowerVerified(one, { gradients: true, withinBudget: false })
  return { actual, programs: { actual: lower(actual), serial: lower(serial(actual)) } }
}

/** One rank, the whole batch at once: what the plan must be equal to. */
export function serial(compiled: Compiled): Compiled {
  const document = serialDocument(compiled.document)
  return { ...compiled, document, plan: resolveFor(document, compiled.model) }
}

function serialDocument(document: PlanDocument): PlanDocument {
  return setPlan(document, [
    'mesh={"pipeline": 1, "data": 1}',
    'layout=null',
    'stages=null',
    'schedule=1f1b',
    'batch.microbatches=1',
    'memory.deviceBytes=null',
    'recompute=none',
    'zero=0',
  ])
}

function copyBatch<T extends { readonly tokens: Int32Array; readonly labels: Int32Array }>(batch: T): T {
  return { ...batch, tokens: batch.tokens.slice(), labels: batch.labels.slice() }
}
