import type { Graph, ValueId } from '../../graph/index.ts'
import { axesSize, axisSize } from '../mesh.ts'
import type { WantedValue } from '../partition/types.ts'
import type { Mesh } from '../types.ts'

/** Which dim of a weight runs along what a linear takes, and which along what it gives. */
export interface LinearDims {
  readonly taken: number
  readonly given: number
}

/** How the forward of a graph uses its weights, by parameter, whichever way they are stored. The first product counts. */
export function linearDims({ inputs, nodes, values }: Graph): ReadonlyMap<string, LinearDims> {
  const found = new Map<string, LinearDims>()
  /** Parameters and what is made of them by turning them, with the dims of the parameter in order. */
  const weights = new Map<ValueId, { readonly name: string; readonly dims: readonly number[] }>()
  for (const { name, kind, value } of inputs) {
    const { length } = values[value]!.type.shape
    if (kind === 'parameter' && length === 2) weights.set(value, { name, dims: [0, 1] })
  }
  for (const { op, attributes, inputs: operands, outputs } of nodes) {
    const [first, second] = operands.map((operand) => weights.get(operand))
    if (op === 'transpose' && first !== undefined)
      weights.set(outputs[0]!, { ...first, dims: attributes.permutation.map((dim) => first.dims[dim]!) })
    if (op !== 'matmul') continue
    const weight = second ?? first
    if (weight === undefined || found.has(weight.name)) continue
    const [rows, columns] = weight.dims as [number, number]
    const isFlipped = second === undefined ? !attributes.transposeA : attributes.transposeB
    found.set(weight.name, isFlipped ? { taken: columns, given: rows } : { taken: rows, given: columns })
  }
  return found
}

type Factored = Pick<WantedValue, 'type' | 'factors'>

/** First factor of a dim of a value, and the one after its last. */
function factorsOf({ factors }: Factored, dim: number): { readonly start: number; readonly end: number } {
  const start = factors.slice(0, dim).reduce((sum, count) => sum + count, 0)
  return { start, end: start + factors[dim]! }
}

/** Whether some factor of a dim is this logical axis. */
export function isAlong(value: Factored, dim: number, axis: string): boolean {
  const { start, end } = factorsOf(value, dim)
  return (value.type.axes ?? []).slice(start, end).some((name) => baseOf(name) === axis)
}

function baseOf(name: string): string {
  return name.replace(/\.\d+$/, '')
}

/**
 * Axes that cut the factors of a value, given those that cut its dims: from the outermost factor on (from that of heads on, where
 * there are such: queries, keys and values lie outside of them), each as far as it divides. `fits` is false where some axis
 * divides none that is left; it then stands at the last. What attention is compressed to is as wide as it is, and stays whole where it
 * does not divide.
 */
export function cutFactors(
  value: Factored,
  cuts: readonly (readonly string[])[],
  mesh: Mesh,
): { readonly dims: readonly (readonly string[])[]; readonly fits: boolean } {
  const { shape, axes = [] } = value.type
  const dims: string[][] = shape.map(() => [])
  let fits = true
  for (const [dim, over] of cuts.entries()) {
    if (isAlong(value, dim, 'latent') && shape[factorsOf(value, dim).start]! % axesSize(mesh, over) !== 0)
      continue
    const { start, end } = factorsOf(value, dim)
    const heads = axes.slice(start, end).findIndex((name) => ['heads', 'kvHeads'].includes(baseOf(name)))
    let at = start + Math.max(0, heads)
    let rest = shape[at]!
    for (const axis of over) {
      const parts = axisSize(mesh, axis)
      while (rest % parts !== 0 && at + 1 < end) rest = shape[++at]!
      if (rest % parts !== 0) fits = false
      dims[at]!.push(axis)
      rest /= parts
    }
  }
  return { dims, fits }
}
