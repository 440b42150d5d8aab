import { describe, expect, it } from 'vitest'
import { verifyProgram } from '../../program/index.ts'
import { simulateProgram, simulationTrace, unitCosts } from '../../simulate/index.ts'
import { loadWarning, watchOthers } from '../machine.ts'
import { coresWarning } from '../measureCosts.ts'
import { accuracyPage, largestPart } from './page.ts'
import { accuracyPlans, fullSize, quickSize } from './plans.ts'
import { preparePlans, requireCores } from './run.ts'
import { type StepShares, stepShares } from './shares.ts'
import type { AccuracyReport, PlanAccuracy } from './types.ts'

const tiny = { layers: 4, hidden: 8, heads: 2, sequence: 8, samples: 16 }
const prepared = preparePlans(tiny)

describe('the plans', () => {
  it('try out what a plan can choose, on two ranks, and are verified', () => {
    const plans = accuracyPlans(fullSize)
    expect(plans.length).toBeGreaterThanOrEqual(6)
    const of = (name: 'zero' | 'recompute' | 'mesh'): unknown[] =>
      [...new Set(plans.map((one) => one[name]))].sort()
    expect(of('zero')).toEqual(['0', '1', '2', '3'])
    expect(of('recompute')).toEqual(['attention', 'full', 'none'])
    expect(of('mesh')).toEqual(['data 2', 'pipeline 2'])
    expect(new Set(plans.map(({ schedule }) => schedule)).size).toBeGreaterThanOrEqual(6)
    expect(new Set(plans.map(({ document }) => document)).size).toBe(plans.length)
    for (const { program } of prepared) expect(verifyProgram(program).findings).toEqual([])
    expect(preparePlans(quickSize).length).toBe(plans.length)
  })

  it('are refused where their ranks would share a core', () => {
    expect(() => requireCores(prepared, 2)).not.toThrow()
    expect(() => requireCores(prepared, 1)).toThrow(
      expect.objectContaining({ code: 'ACCURACY_CORES', exitCode: 5 }),
    )
  })
})

describe('warnings', () => {
  it('say where ranks outnumber cores, and where the machine is busy', () => {
    const { program } = prepared[0]!
    expect(coresWarning(program, 2)).toBeUndefined()
    expect(coresWarning(program, 1)).toContain('2 ranks outnumber the one core')
    expect(loadWarning({ load: 0.2 })).toBeUndefined()
    expect(loadWarning({ load: 3.14 })).toContain('load 3.14')
    const coresOfOthers = watchOthers()()
    expect(coresOfOthers).toBeGreaterThanOrEqual(0)
    expect(Number.isFinite(coresOfOthers)).toBe(true)
  })
})

describe('shares of a step', () => {
  it('add up to it, and name what most of an error is', () => {
    for (const { program } of prepared) {
      const result = simulateProgram(program, unitCosts(), { engine: 'local' })
      const shares = stepShares(simulationTrace(result), result.stepSeconds)
      const { compute, transfer, collective, rest } = shares
      expect(compute + transfer + collective + rest).toBeCloseTo(result.stepSeconds)
      // Only runs take time: what ranks compute is what is not idle.
      expect(compute).toBeCloseTo(result.stepSeconds * (1 - result.idleFraction))
      expect(transfer + collective).toBeCloseTo(0)
    }
    expect(largestPart(made({ compute: 0.09, transfer: 0, collective: 0.03, rest: 0 }))).toBe(
      'collective +20.0 %',
    )
  })
})

describe('the page', () => {
  it('has a line for each plan, the median, and the flags of the command', () => {
    const report: AccuracyReport = {
      schemaVersion: 1,
      date: '2026-01-02T03:04:05Z',
      seconds: 61,
      machine: { processor: 'A', cores: 2, memoryBytes: 2 ** 30, system: 'B', load: 0.1 },
      coresOfOthers: 0.03,
      versions: { meshwright: '1', node: '2', onnxRuntime: '3' },
      size: tiny,
      rounds: 3,
      stepsPerRound: 2,
      plans: [made({ compute: 0.09, transfer: 0, collective: 0.03, rest: 0 })],
      medianError: 0.025,
      costs: {
        meshwrightCosts: 1,
        machine: { name: 'A', cores: 2, software: {} },
        tasks: {},
        transfer: { send: line, receive: line },
        wake: 0,
        collectives: {},
        moves: { in: line, out: line },
      },
    }
    const page = accuracyPage(report, [['--quick', 'soon done']])
    expect(page).toContain('on 2026-01-02')
    expect(page).toContain('Median error 2.5 %')
    expect(page).toMatch(
      /\| 1f1b +\| pipeline 2 \| 0 +\| none +\| +120 \| +100 \| +90\.0–110 \| \+20\.0 % \|/,
    )
    expect(page).toContain('<!-- generated: flags of accuracy -->')
    expect(page).toContain('| `--quick` | soon done |')
  })
})

const line = { seconds: 0, secondsPerByte: 0 }

/** 120 ms predicted, 100 ms measured, where one collective takes twice as long as it should. */
function made(predicted: StepShares): PlanAccuracy {
  return {
    plan: accuracyPlans(tiny)[0]!,
    predictedSeconds: 0.12,
    measuredSeconds: { median: 0.1, low: 0.09, high: 0.11 },
    error: 0.2,
    shares: { predicted, measured: { compute: 0.09, transfer: 0, collective: 0.01, rest: 0 } },
  }
}
