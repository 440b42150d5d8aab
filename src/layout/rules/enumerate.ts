import type { Layout } from '../types.ts'
import { type Assignment, canCut, commutes, indicesOf } from './assignment.ts'
import type { OpPlanRequest } from './choose.ts'
import type { CuttableOp } from './cuttable.ts'
import type { OpSignature } from './notation.ts'

/** Assignments that are compared for one op. Four indices with three cuts each are fewer. */
const mostAssignments = 200

/** Ways to cut an op that follow from how its operands lie and its results are wanted; all operands whole is one of them. */
export function assignmentsFor(op: CuttableOp, { mesh, layouts, wanted }: OpPlanRequest): Assignment[] {
  const { signature } = op
  const varying = [...new Set(layouts.flatMap((layout) => layout.varying))].sort()
  const start: Assignment = { indices: {}, terms: {}, varying }
  const cuts = [...cutsSeen(signature.inputs, layouts), ...cutsSeen(signature.outputs, wanted ?? [])].map(
    ({ index, axes }) => ({ index, axes, allowed: canCut(signature, op, mesh, index, axes) }),
  )
  let found = [start]
  for (const index of indicesOf(signature)) {
    const options = distinct(cuts.filter((cut) => cut.index === index && cut.allowed).map(({ axes }) => axes))
    const extended = found.flatMap((assignment) =>
      options
        .filter((axes) => axes.every((axis) => isFree(assignment, axis)))
        .map((axes) => ({ ...assignment, indices: { ...assignment.indices, [index]: axes } })),
    )
    found = [...extended, ...found].slice(0, mostAssignments)
    // However many there are, the way that always is stays among them.
    if (!found.includes(start)) found[found.length - 1] = start
  }
  for (const { axis, rule, reduce } of termsSeen(signature, layouts)) {
    const extended = found
      .filter((assignment) => isFree(assignment, axis))
      .map((assignment) => ({ ...assignment, terms: { ...assignment.terms, [axis]: { rule, reduce } } }))
    found = [...extended, ...found]
  }
  return found.filter((assignment) => commutes(signature, assignment))
}

function isFree({ indices, terms, varying }: Assignment, axis: string): boolean {
  const cutting = Object.values(indices).some((axes) => axes.includes(axis))
  return !cutting && terms[axis] === undefined && !varying.includes(axis)
}

/** For each index the axes that cut it in some layout: all of them, and each number of the outermost. */
function cutsSeen(
  names: readonly (readonly string[])[],
  layouts: readonly (Layout | undefined)[],
): { index: string; axes: readonly string[] }[] {
  return names.flatMap((own, at) =>
    own.flatMap((index, dim) => {
      const axes = layouts[at]?.dims[dim] ?? []
      return axes.map((_, inner) => ({ index, axes: axes.slice(0, axes.length - inner) }))
    }),
  )
}

function termsSeen(
  signature: OpSignature,
  layouts: readonly Layout[],
): { axis: string; rule: number; reduce: Layout['partial'][string] }[] {
  const seen = new Map<string, { axis: string; rule: number; reduce: Layout['partial'][string] }>()
  layouts.forEach(({ partial }, input) => {
    for (const [axis, reduce] of Object.entries(partial))
      signature.terms?.forEach(({ inputs, reductions }, rule) => {
        if (inputs.includes(input) && reductions.includes(reduce))
          seen.set(`${axis} ${rule} ${reduce}`, { axis, rule, reduce })
      })
  })
  return [...seen.values()]
}

function distinct(lists: readonly (readonly string[])[]): (readonly string[])[] {
  return [...new Map(lists.map((list) => [list.join(), list])).values()]
}
