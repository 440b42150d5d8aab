import { expect } from 'vitest'
import { MeshwrightError } from '../../src/base/index.ts'
import { PlanError, type PlanProblem, parsePlan } from '../../src/plan/index.ts'

/** Of a plan that must be refused. */
export function problemsOf(text: string): readonly PlanProblem[] {
  try {
    parsePlan(text, { file: 'plan.yaml' })
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    expect(error).toBeInstanceOf(MeshwrightError)
    expect(error).toMatchObject({ code: 'PLAN_INVALID', exitCode: 2 })
    return error.problems
  }
  throw new Error('not refused')
}

/** `CODE line:column path: message; hint` */
export const shown = (text: string): string[] =>
  problemsOf(text).map(
    ({ code, at, message, hint }) =>
      `${code} ${at.line}:${at.column} ${at.path}: ${message}${hint === undefined ? '' : `; ${hint}`}`,
  )
