import type { SourcePosition } from '../base/index.ts'
import type { Locate } from './check.ts'
import type { Path } from './describe.ts'
import type { PlanDocument } from './types.ts'

/**
 * Where each plan was read from. Kept beside the documents and not in them, so that a plan stays plain data and what
 * is found wrong later (when it meets a model) still names file, line and column.
 */
const sources = new WeakMap<PlanDocument, Locate>()

export function rememberSource(plan: PlanDocument, locate: Locate): void {
  sources.set(plan, locate)
}

export function sourceOf(plan: PlanDocument): Locate {
  return sources.get(plan) ?? ((path) => ({ path: path.join('.') }))
}

/** Where the value at a path of the plan stands in the text it was read from. */
export function planPosition(plan: PlanDocument, path: Path): SourcePosition {
  return sourceOf(plan)(path, 'value')
}
