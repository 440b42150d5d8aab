import { internalError, median, quantile } from '../../base/index.ts'
import { createLocalEngine, type Engine, initialState, stepInput } from '../../engine/index.ts'
import type { Program } from '../../program/index.ts'
import { type MeasuredTable, measuredCosts, simulateProgram, simulationTrace } from '../../simulate/index.ts'
import { traceFromStep } from '../../trace/index.ts'
import { type Compiled, learningRateOf } from '../prepare.ts'
import type { AccuracyPlan } from './plans.ts'
import { type StepShares, type shareNames, stepShares } from './shares.ts'
import type { PlanAccuracy } from './types.ts'

export interface PreparedPlan {
  readonly plan: AccuracyPlan
  readonly compiled: Compiled
  readonly program: Program
}

export interface Effort {
  readonly rounds: number
  readonly stepsPerRound: number
  readonly warmupRounds: number
}

export interface Prediction {
  readonly seconds: number
  readonly shares: StepShares
}

/** Before any of the plans has run. */
export function predict({ program }: PreparedPlan, table: MeasuredTable): Prediction {
  const result = simulateProgram(program, measuredCosts(table), { engine: 'local' })
  return { seconds: result.stepSeconds, shares: stepShares(simulationTrace(result), result.stepSeconds) }
}

interface Runner {
  readonly engine: Engine
  readonly step: () => Promise<{ readonly seconds: number; readonly shares: StepShares }>
}

/** Runs the plans in turns, who begins moving on by one each round, and sets their times beside those predicted. */
export async function measurePlans(
  plans: readonly PreparedPlan[],
  predictions: readonly Prediction[],
  { rounds, stepsPerRound, warmupRounds }: Effort,
  onProgress: (fraction: number, text: string) => void,
  shouldStop: () => boolean,
): Promise<PlanAccuracy[]> {
  const runners: Runner[] = []
  const medians = plans.map((): number[] => [])
  const shares = plans.map((): StepShares[] => [])
  try {
    for (const prepared of plans) runners.push(await startRunner(prepared))
    for (let round = -warmupRounds; round < rounds; round++)
      for (let place = 0; place < plans.length; place++) {
        if (shouldStop()) return []
        const index = (round + warmupRounds + place) % plans.length
        const done = (round + warmupRounds) * plans.length + place
        onProgress(done / ((rounds + warmupRounds) * plans.length), plans[index]!.plan.name)
        const seconds: number[] = []
        for (let step = 0; step < stepsPerRound; step++) {
          const taken = await runners[index]!.step()
          seconds.push(taken.seconds)
          if (round >= 0) shares[index]!.push(taken.shares)
        }
        if (round >= 0) medians[index]!.push(median(seconds))
      }
  } finally {
    for (const { engine } of runners) await engine.stop()
  }
  return plans.map(({ plan }, index): PlanAccuracy => {
    const { seconds, shares: predicted } = predictions[index]!
    const own = medians[index]!
    const measured = { median: median(own), low: quantile(own, 0.25), high: quantile(own, 0.75) }
    return {
      plan,
      predictedSeconds: seconds,
      measuredSeconds: measured,
      error: seconds / measured.median - 1,
      shares: { predicted, measured: medianShares(shares[index]!) },
    }
  })
}

async function startRunner({ compiled, program }: PreparedPlan): Promise<Runner> {
  const { model, optimizer, plan, document } = compiled
  const engine = await createLocalEngine(program, { trace: true })
  try {
    await engine.writeState(initialState({ model, optimizer, dtype: plan.dtype, seed: document.seed }))
  } catch (error) {
    await engine.stop()
    throw error
  }
  const learningRate = learningRateOf(document, 1000)
  const targets = document.batch.samples * plan.sequence
  const batch = {
    tokens: randomTokens(targets, model.vocabulary, 1),
    labels: randomTokens(targets, model.vocabulary, 2),
    targets,
  }
  let done = 0
  const step = async (): ReturnType<Runner['step']> => {
    const input = stepInput(done++, batch, optimizer, learningRate)
    const began = performance.now()
    const { trace } = await engine.step(input)
    const seconds = (performance.now() - began) / 1000
    if (trace === undefined) throw internalError('a traced step without its trace')
    return { seconds, shares: stepShares(traceFromStep(program, trace), seconds) }
  }
  return { engine, step }
}

/** Any tokens do: time does not depend on them. A linear congruential generator (Numerical Recipes' constants). */
function randomTokens(count: number, vocabulary: number, seed: number): Int32Array {
  let state = seed
  return Int32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * vocabulary)
  })
}

function medianShares(shares: readonly StepShares[]): StepShares {
  const of = (name: (typeof shareNames)[number]): number => median(shares.map((share) => share[name]))
  return { compute: of('compute'), transfer: of('transfer'), collective: of('collective'), rest: of('rest') }
}
