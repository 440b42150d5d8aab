import type { MeasuredTable } from '../../simulate/index.ts'
import type { Machine } from '../machine.ts'
import type { AccuracyPlan, AccuracySize } from './plans.ts'
import type { StepShares } from './shares.ts'

export interface PlanAccuracy {
  readonly plan: AccuracyPlan
  readonly predictedSeconds: number
  /** Median and quartiles of the rounds' medians. */
  readonly measuredSeconds: { readonly median: number; readonly low: number; readonly high: number }
  /** Predicted over measured, less 1. */
  readonly error: number
  readonly shares: { readonly predicted: StepShares; readonly measured: StepShares }
}

export interface AccuracyReport {
  readonly schemaVersion: 1
  /** ISO date. */
  readonly date: string
  readonly seconds: number
  readonly machine: Machine
  /** Cores that other processes used meanwhile, on average. */
  readonly coresOfOthers: number
  readonly versions: { readonly meshwright: string; readonly node: string; readonly onnxRuntime: string }
  readonly size: AccuracySize
  readonly rounds: number
  readonly stepsPerRound: number
  readonly plans: readonly PlanAccuracy[]
  /** Of the errors without their signs. */
  readonly medianError: number
  readonly costs: MeasuredTable
}
