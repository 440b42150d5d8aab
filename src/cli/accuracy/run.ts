import { availableParallelism } from 'node:os'
import { exitCodes, MeshwrightError, median } from '../../base/index.ts'
import { writeFileAtomic } from '../../data/index.ts'
import { parsePlan } from '../../plan/index.ts'
import { rankCount } from '../../program/index.ts'
import type { AccuracyFlags } from '../accuracy.ts'
import { catchInterrupts } from '../interrupt.ts'
import { describeMachine, loadWarning, watchOthers } from '../machine.ts'
import { measureCosts } from '../measureCosts.ts'
import { compile, lowerVerified } from '../prepare.ts'
import { Progress } from '../progress.ts'
import { paint } from '../style.ts'
import { packageVersion } from '../version.ts'
import { type Effort, measurePlans, type PreparedPlan, predict } from './measure.ts'
import { type AccuracyFlag, accuracyPage } from './page.ts'
import { type AccuracySize, accuracyPlans, fullSize, quickSize } from './plans.ts'
import type { AccuracyReport } from './types.ts'

/** Cores; a quiet system has a little to do of its own. */
const mostForOthers = 0.1

const fullEffort: Effort = { rounds: 15, stepsPerRound: 3, warmupRounds: 1 }
const quickEffort: Effort = { rounds: 5, stepsPerRound: 2, warmupRounds: 1 }

export async function accuracyWithFlags(
  flags: AccuracyFlags,
  described: readonly AccuracyFlag[],
): Promise<void> {
  const interrupts = catchInterrupts(
    () => process.stderr.write('\nstopping after this step\n'),
    () => process.exit(exitCodes.interrupted),
  )
  try {
    const report = await measureAccuracy(flags.quick === true, interrupts.asked)
    if (report.coresOfOthers > mostForOthers)
      process.stderr.write(
        `${paint.yellow('note')} others used ${report.coresOfOthers.toFixed(2)} cores meanwhile: these figures say little\n`,
      )
    const page = accuracyPage(report, described)
    process.stdout.write(flags.json === true ? `${JSON.stringify(report, null, 2)}\n` : page)
    if (flags.out === undefined) return
    writeFileAtomic(flags.out, page)
    process.stderr.write(`wrote ${flags.out}\n`)
  } finally {
    interrupts.release()
  }
}

async function measureAccuracy(quick: boolean, shouldStop: () => boolean): Promise<AccuracyReport> {
  const size = quick ? quickSize : fullSize
  const plans = preparePlans(size)
  requireCores(plans, availableParallelism())
  const machine = describeMachine()
  const busy = loadWarning(machine)
  if (busy !== undefined) process.stderr.write(`${paint.yellow('note')} ${busy}\n`)
  const began = performance.now()
  const coresOfOthers = watchOthers()
  const costs = await measureCosts(
    plans.map(({ program }) => program),
    { seconds: quick ? 15 : 60, shouldStop },
  )
  const predictions = plans.map((plan) => predict(plan, costs))
  const effort = quick ? quickEffort : fullEffort
  const progress = new Progress('plans')
  const results = await measurePlans(
    plans,
    predictions,
    effort,
    (fraction, text) => progress.update(fraction, text),
    shouldStop,
  )
  progress.clear()
  if (shouldStop())
    throw new MeshwrightError('RUN_STOPPED', 'stopped before all was measured', {
      exitCode: exitCodes.interrupted,
    })
  return {
    schemaVersion: 1,
    date: new Date().toISOString(),
    seconds: (performance.now() - began) / 1000,
    machine,
    coresOfOthers: coresOfOthers(),
    versions: {
      meshwright: packageVersion(),
      node: process.versions.node,
      onnxRuntime: costs.machine.software['onnxruntime-node'] ?? 'unknown',
    },
    size,
    rounds: effort.rounds,
    stepsPerRound: effort.stepsPerRound,
    plans: results,
    medianError: median(results.map(({ error }) => Math.abs(error))),
    costs,
  }
}

export function preparePlans(size: AccuracySize): PreparedPlan[] {
  return accuracyPlans(size).map((plan) => {
    const compiled = compile({ document: parsePlan(plan.document), directory: '.', source: plan.name })
    return { plan, compiled, program: lowerVerified(compiled) }
  })
}

/** @throws MeshwrightError `ACCURACY_CORES` where ranks would take turns on a core, which nothing here predicts */
export function requireCores(plans: readonly Pick<PreparedPlan, 'program'>[], cores: number): void {
  const ranks = Math.max(...plans.map(({ program }) => rankCount(program.mesh)))
  if (ranks <= cores) return
  throw new MeshwrightError(
    'ACCURACY_CORES',
    `the plans have ${ranks} ranks, and there ${cores === 1 ? 'is 1 core' : `are ${cores} cores`}`,
    {
      exitCode: exitCodes.run,
      hint: 'times of ranks that take turns on a core say nothing: measure on a machine with more cores',
    },
  )
}
