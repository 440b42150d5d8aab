import { isReplicaAxis } from '../mesh.ts'
import { formatValue } from '../text/operands.ts'
import { CopyFlow, type CopyProblem, CopyWalk } from './copyWalk.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'
import { findingAt } from './findingAt.ts'

/** A program that says itself what its step is has state that is a rank's own. */
export function hasCopies({ program }: VerifyContext): boolean {
  return program.work.method !== 'declared'
}

/**
 * Ranks that hold the same elements of a tensor, by its blocks and shards, leave the step with the same bits of them, and
 * give the same results: each of them was made of values that are the same on these ranks, or that a collective made so.
 * And what is added along an axis that replicas do not lie along is no copies of one value. Found by following through all
 * lists along which axes values differ, given that a task makes equal results of equal operands, until nothing changes.
 */
export function checkCopies(context: VerifyContext): Finding[] {
  const { program, roles } = context
  // Of replicas alone it follows from what `terms` and `sums` say.
  if (
    program.mesh.submeshes.every((axes) => axes.every(({ name, size }) => size === 1 || isReplicaAxis(name)))
  )
    return []
  const flow = new CopyFlow(program)
  let walks: { readonly view: RoleView; readonly walk: CopyWalk }[]
  let order = roles
  do {
    flow.changed = false
    walks = order.map((view) => ({ view, walk: new CopyWalk(flow, view).walk() }))
    // Forwards go one way through the stages and backwards the other.
    order = order.toReversed()
  } while (flow.changed)
  return walks
    .toSorted((a, b) => a.view.index - b.view.index)
    .flatMap(({ view, walk }) => described(context, view, flow, walk.problems))
}

/** One finding for each instruction and kind: what it begins with, and how many more there are. */
function described(
  context: VerifyContext,
  view: RoleView,
  flow: CopyFlow,
  problems: readonly CopyProblem[],
): Finding[] {
  const groups = new Map<string, CopyProblem[]>()
  for (const problem of problems) {
    const key = `${problem.instruction} ${problem.kind} ${problem.value}`
    const known = groups.get(key)
    if (known === undefined) groups.set(key, [problem])
    else known.push(problem)
  }
  return [...groups.values()].map((all) => {
    const { instruction, kind, value, tensor, axes } = all[0]!
    const more = all.length > 1 ? ` and ${all.length - 1} more` : ''
    const where = formatValue(view.role, value)
    const what = tensor === undefined ? where : `${tensor}${more} in ${where}`
    const along = flow.names(axes).join(', ')
    return kind === 'added'
      ? findingAt(
          context,
          view,
          instruction,
          'SUM_WHOLE',
          `adds copies of ${what}: ranks along ${along} have the same`,
          'remove it, or add what they have of one sum',
        )
      : findingAt(
          context,
          view,
          instruction,
          'COPY_DIFFERS',
          `leaves ${what} different on ranks along ${along}, which hold the same of it`,
          'make it of what these ranks have the same, or add up what they have of it first',
        )
  })
}
