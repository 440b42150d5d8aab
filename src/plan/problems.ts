import { formatPosition, MeshwrightError, type SourcePosition } from '../base/index.ts'

/** One thing that is wrong with a plan. */
export interface PlanProblem {
  /** `PLAN_SYNTAX`, `PLAN_UNKNOWN_KEY`, `PLAN_DUPLICATE_KEY`, `PLAN_VALUE`, `PLAN_MISSING`, or a code of `resolvePlan`. */
  readonly code: string
  /** Without the path, which `at` has. */
  readonly message: string
  readonly at: SourcePosition
  readonly hint?: string
}

/** All that is wrong with a plan at once. `code` is `PLAN_INVALID`; each problem has a code of its own. */
export class PlanError extends MeshwrightError {
  readonly problems: readonly PlanProblem[]

  constructor(problems: readonly PlanProblem[], file?: string) {
    const [first] = problems
    if (problems.length === 1 && first !== undefined)
      super('PLAN_INVALID', first.message, {
        at: first.at,
        ...(first.hint === undefined ? {} : { hint: first.hint }),
      })
    else
      super(
        'PLAN_INVALID',
        [`${problems.length} problems in the plan`, ...problems.map(formatProblem)].join('\n  '),
        file === undefined ? {} : { at: { file } },
      )
    this.problems = problems
  }
}

/** `plan.yaml:3:7 mesh.pipeline: expected …, got …; did you mean …?` */
export function formatProblem({ at, message, hint }: PlanProblem): string {
  const place = formatPosition(at)
  return `${place === '' ? '' : `${place}: `}${message}${hint === undefined ? '' : `; ${hint}`}`
}
