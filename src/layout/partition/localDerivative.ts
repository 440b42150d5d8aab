import {
  GraphBuilder,
  type GraphOutput,
  type ParameterGradient,
  type StageDerivative,
  type ValueId,
} from '../../graph/index.ts'
import { makeLayout, sameLayout } from '../layout.ts'
import { axesSize } from '../mesh.ts'
import { redistribute } from '../redistribute.ts'
import { idsOr, ownIds } from '../rules/products.ts'
import type { WantedLayout } from '../rules/target.ts'
import type { Layout, Mesh } from '../types.ts'
import type { OutputWants } from './assign.ts'
import { addStep } from './communication.ts'
import { withDenseRows } from './denseRows.ts'
import { localGraph } from './localGraph.ts'
import { overlapChunks } from './overlapChunks.ts'
import { RankScalars } from './rankScalars.ts'
import type { LocalGraph, PlacedType, RankScalar, Wants } from './types.ts'

/** Forward and backward of a stage as every rank of a mesh runs them. */
export interface LocalDerivative extends StageDerivative {
  /** Inputs of the joint graph, of kind `scalar`. */
  readonly scalars: readonly RankScalar[]
  /** Of every input and output of the whole graph, by name. */
  readonly placed: ReadonlyMap<string, PlacedType>
  /** By parameter: axes along which its gradient is terms of a sum, all parts of it alike. */
  readonly terms: ReadonlyMap<string, readonly string[]>
  /** Axes along which the loss is terms of a sum. */
  readonly lossTerms: readonly string[]
  /** Values of the joint graph that are held for the backward wherever it takes them. */
  readonly kept: readonly ValueId[]
  /** That all ranks together put on the wire. */
  readonly wireBytes: number
}

export interface LocalDerivativeOptions {
  /** By parameter: axes along which gradients must be terms, where other stages have terms of the same. */
  readonly terms?: ReadonlyMap<string, readonly string[]>
  /** Chunks of collectives and of the products beside them (`overlapChunks`); 1 where left out. */
  readonly overlap?: number
}

/**
 * Cuts forward and backward together, after differentiation: layouts of both are one choice, and operators that are
 * conjugate (Shoeybi et al. 2019, section 3) follow from it. Gradients lie as their parameters do, but for terms, which
 * stay terms: they add up over micro-batches, and are reduced once, at the end of the step. Of a gradient that is rows of a
 * table, a rank has those of its part of the table; ids of others are negative. Where products go by panels, so do those
 * rows: they are added to the table's gradient. Throws what `localGraph` throws.
 */
export function localDerivative(
  derivative: StageDerivative,
  mesh: Mesh,
  wants: Wants,
  options: LocalDerivativeOptions = {},
): LocalDerivative {
  const { joint, gradients, gradientOutputs } =
    wants.products?.kind === 'panels' ? withDenseRows(derivative) : derivative
  const alike = new Map(gradients.map((gradient) => [outputOf(gradient), gradient.parameter]))
  const cut = (terms: ReadonlyMap<string, readonly string[]>): LocalGraph =>
    localGraph(joint, mesh, wants, { outputWants: gradientWants(gradients, terms), alike })
  let local = cut(options.terms ?? new Map())
  let terms = termsOf(local, gradients)
  // Parts that are whole where others are terms would count as often as there are ranks.
  if (
    gradients.some((gradient) => partTerms(local, gradient).length < terms.get(gradient.parameter)!.length)
  ) {
    local = cut(terms)
    terms = termsOf(local, gradients)
  }
  const found = withRowIds(local, mesh, gradients)
  const graph = overlapChunks(found.graph, options.overlap ?? 1)
  const isKept = ({ name }: GraphOutput): boolean => local.kept.includes(name)
  const pick = (outputs: readonly GraphOutput[]): GraphOutput[] =>
    outputs.map(({ name }) => graph.outputs.find((output) => output.name === name)!)
  return {
    joint: { ...graph, outputs: graph.outputs.filter((output) => !isKept(output)) },
    kept: graph.outputs.filter(isKept).map(({ value }) => value),
    forwardOutputs: pick(derivative.forwardOutputs),
    cotangentOutputs: pick(derivative.cotangentOutputs),
    gradientOutputs: [
      ...pick(gradientOutputs),
      ...graph.outputs.filter(({ name }) => found.ids.includes(name)),
    ],
    standIns: pick(derivative.standIns),
    gradients: found.gradients,
    scalars: found.scalars,
    placed: new Map([...local.inputs, ...local.outputs]),
    terms,
    lossTerms: Object.keys(local.outputs.get('loss')?.layout.partial ?? {}),
    wireBytes: local.wireBytes,
  }
}

function outputOf(gradient: ParameterGradient): string {
  return gradient.kind === 'dense' ? gradient.output : gradient.values
}

/** Gradients as their parameters lie, as terms along the given axes and along those where they come as terms. */
function gradientWants(
  gradients: readonly ParameterGradient[],
  terms: ReadonlyMap<string, readonly string[]>,
): OutputWants {
  const owners = new Map(gradients.map((gradient) => [outputOf(gradient), gradient]))
  return (name, made, inputLayout): WantedLayout | undefined => {
    const gradient = owners.get(name)
    if (gradient === undefined) return undefined
    const own = inputLayout(gradient.parameter).dims
    if (gradient.kind === 'rows' && made === undefined) return undefined
    const dims = gradient.kind === 'dense' ? own : rowDims(made!, own)
    const used = dims.flat()
    const required = (terms.get(gradient.parameter) ?? []).filter((axis) => !used.includes(axis))
    const partial = Object.fromEntries(required.map((axis) => [axis, 'sum' as const]))
    return { ...makeLayout(dims, { partial }), keepsTerms: true }
  }
}

/** Rows cut along their dims as the table is; along those of their ids as they come, less what cuts the table. */
function rowDims(made: Layout, table: Layout['dims']): Layout['dims'] {
  const row = table.slice(1)
  const cutting = table.flat()
  const ids = made.dims.slice(0, made.dims.length - row.length)
  return [...ids.map((axes) => axes.filter((axis) => !cutting.includes(axis))), ...row]
}

/** Axes along which one part of a gradient is terms: rows of part of the ids are. */
function partTerms({ inputs, outputs }: LocalGraph, gradient: ParameterGradient): string[] {
  const { layout } = outputs.get(outputOf(gradient))!
  const partial = Object.keys(layout.partial)
  if (gradient.kind === 'dense') return partial
  const table = inputs.get(gradient.parameter)!.layout.dims
  return [...layout.dims.slice(0, layout.dims.length - table.length + 1).flat(), ...partial]
}

function termsOf(local: LocalGraph, gradients: readonly ParameterGradient[]): Map<string, readonly string[]> {
  const terms = new Map<string, readonly string[]>()
  for (const gradient of gradients) {
    const known = terms.get(gradient.parameter) ?? []
    terms.set(gradient.parameter, [...new Set([...known, ...partTerms(local, gradient)])].sort())
  }
  return terms
}

/** The graph with the ids of rows that a rank has, counted from the first row of its part of the table. */
function withRowIds(
  local: LocalGraph,
  mesh: Mesh,
  gradients: readonly ParameterGradient[],
): {
  readonly graph: LocalGraph['graph']
  readonly gradients: readonly ParameterGradient[]
  readonly scalars: readonly RankScalar[]
  readonly ids: readonly string[]
} {
  const builder = GraphBuilder.from(local.graph)
  const scalars = new RankScalars(builder, local.scalars)
  const ids: string[] = []
  const changed = gradients.map((gradient): ParameterGradient => {
    if (gradient.kind === 'dense') return gradient
    const { layout } = local.outputs.get(gradient.values)!
    const table = local.inputs.get(gradient.parameter)!
    const [rows] = table.layout.dims as [readonly string[]]
    const given = 'input' in gradient.ids ? gradient.ids.input : gradient.ids.output
    const isInput = 'input' in gradient.ids
    const placed = (isInput ? local.inputs : local.outputs).get(given)!
    const found = (isInput ? local.graph.inputs : local.graph.outputs).find(({ name }) => name === given)!
    const to = makeLayout(layout.dims.slice(0, placed.layout.dims.length))
    if (rows.length === 0 && sameLayout(placed.layout, to)) return gradient
    let value = found.value
    const { type, factors } = placed
    for (const step of redistribute(type, mesh, placed.layout, to, { regular: true }).steps)
      value = addStep({ builder, scalars, mesh, shape: type.shape, factors }, step, value)
    if (rows.length > 0) {
      const count = table.type.shape[0]! / axesSize(mesh, rows)
      const { own, inside } = ownIds(builder, value, scalars.start(rows, count), count)
      value = idsOr(builder, own, inside, -1)
    }
    const name = `${gradient.values}.ids of the rank`
    builder.output(name, value)
    ids.push(name)
    return { ...gradient, ids: { output: name } }
  })
  for (const { name, value } of local.graph.outputs) builder.output(name, value)
  return { graph: builder.build({ keepInputs: true }), gradients: changed, scalars: scalars.used, ids }
}
