import type { TensorType } from '../../graph/index.ts'
import { reductionsCommute } from '../check.ts'
import { makeLayout } from '../layout.ts'
import { axesSize } from '../mesh.ts'
import type { Layout, Mesh, PartialReduction } from '../types.ts'
import type { OpSignature } from './notation.ts'

/** One way to cut an op: what each axis of the mesh does to it. An axis that is named nowhere does nothing: ranks repeat the work. */
export interface Assignment {
  /** Axes that cut an index, outermost first. */
  readonly indices: Readonly<Record<string, readonly string[]>>
  /** Axes along which operands are terms, by the rule of the signature's `terms` with that number. */
  readonly terms: Readonly<Record<string, { readonly rule: number; readonly reduce: PartialReduction }>>
  /** Axes along which operands, and so results, may differ on purpose. */
  readonly varying: readonly string[]
}

function dimsOf(names: readonly string[], { indices }: Assignment): string[][] {
  return names.map((index) => [...(indices[index] ?? [])])
}

/** What each operand's layout must be. `varies`: which operands vary already; the others are whole along those axes. */
export function inputLayouts(
  signature: OpSignature,
  assignment: Assignment,
  varies: (input: number, axis: string) => boolean = () => true,
): Layout[] {
  return signature.inputs.map((names, input) => {
    const partial: Record<string, PartialReduction> = {}
    for (const [axis, { rule, reduce }] of Object.entries(assignment.terms))
      if (signature.terms?.[rule]?.inputs.includes(input)) partial[axis] = reduce
    const varying = assignment.varying.filter((axis) => varies(input, axis))
    return makeLayout(dimsOf(names, assignment), { partial, varying })
  })
}

export function outputLayouts(signature: OpSignature, assignment: Assignment): Layout[] {
  const contraction = signature.contraction ?? 'sum'
  return signature.outputs.map((names) => {
    const partial: Record<string, PartialReduction> = {}
    for (const [axis, { reduce }] of Object.entries(assignment.terms)) partial[axis] = reduce
    for (const [index, axes] of Object.entries(assignment.indices))
      if (!names.includes(index) && signature.inputs.some((own) => own.includes(index)))
        for (const axis of axes) partial[axis] = contraction
    return makeLayout(dimsOf(names, assignment), { partial, varying: assignment.varying })
  })
}

/** Whether an index can be cut by these axes: into equal parts, so that all ranks run one graph, or into single elements. */
export function canCut(
  signature: OpSignature,
  types: { readonly inputs: readonly TensorType[]; readonly outputs: readonly TensorType[] },
  mesh: Mesh,
  index: string,
  axes: readonly string[],
): boolean {
  if (index === '') return false
  const count = axesSize(mesh, axes)
  const sizes = [...indexSizes(signature.inputs, types.inputs, index)]
  sizes.push(...indexSizes(signature.outputs, types.outputs, index))
  if (signature.single?.includes(index) === true) return sizes.every((size) => size === count)
  return sizes.every((size) => size % count === 0)
}

function indexSizes(
  names: readonly (readonly string[])[],
  types: readonly TensorType[],
  index: string,
): number[] {
  return names.flatMap((own, at) =>
    own.flatMap((name, dim) => (name === index ? [types[at]!.shape[dim]!] : [])),
  )
}

/** All indices of a signature that may be cut, in order of first use. */
export function indicesOf(signature: OpSignature): string[] {
  return [...new Set([...signature.inputs, ...signature.outputs].flat())].filter((index) => index !== '')
}

/** Whether results of an assignment are terms of reductions that may be made in any order. */
export function commutes(signature: OpSignature, assignment: Assignment): boolean {
  return outputLayouts(signature, assignment).every(({ partial }) =>
    reductionsCommute(Object.values(partial)),
  )
}
