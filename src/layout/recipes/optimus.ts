import type { Graph } from '../../graph/index.ts'
import type { WantedValue } from '../partition/types.ts'
import { headCuts } from './context.ts'
import { hasAxis } from './dims.ts'
import { cutFactors, isAlong, linearDims } from './linears.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'
import type { RecipeCuts } from './wants.ts'

/**
 * Tensor parallelism over a square of ranks (Xu et al. 2021, section 3.2): activations are cut by rows of the square along the
 * batch and by columns along their features, weights along both, products go by panels. Vectors, which the paper has on the
 * first row of ranks, are cut over both axes where their size allows it, else over columns.
 */
export function optimusCuts(
  settings: LayoutSettings,
  { mesh, parts }: FactoredAxes,
  graph: Graph,
): RecipeCuts {
  const of = (name: string): readonly string[] => parts[name] ?? []
  const [row, column] = [of('tensor.row'), of('tensor.column')]
  const heads = { kv: column, group: [] }
  const tokens = { batch: [...of('data'), ...row], sequence: of('context') }
  const features = {
    ...headCuts(heads),
    mlp: column,
    vocab: settings.vocabulary ? column : [],
    embed: column,
  }
  const experts = { experts: of('expert'), expertMlp: of('expertTensor') }
  const linears = linearDims(graph)
  const parameterDims = (value: WantedValue): readonly (readonly string[])[] | undefined => {
    if (hasAxis(value, 'experts')) return undefined
    const dims = value.factors.map((): readonly string[] => [])
    const linear = linears.get(value.name!)
    if (isTable(value)) {
      dims[0] = settings.vocabulary ? row : []
      dims[1] = column
    } else if (linear !== undefined) {
      dims[linear.taken] = row
      dims[linear.given] = column
    } else {
      const last = dims.length - 1
      const both = cutFactors(value, dims.with(last, [...column, ...row]), mesh)
      if (both.fits) return both.dims
      dims[last] = column
    }
    return cutFactors(value, dims, mesh).dims
  }
  return {
    parameter: () => experts,
    parameterDims,
    heads,
    stream: { ...tokens, embed: column },
    result: (value) => (isLinear(value, Object.keys(features)) ? { ...tokens, ...features } : undefined),
    ...(row.length === 0 || column.length === 0
      ? {}
      : { products: { kind: 'panels', axes: [...row, ...column] } }),
  }
}

/** A row for each word of the vocabulary. */
export function isTable(value: WantedValue): boolean {
  return value.factors.length === 2 && isAlong(value, 0, 'vocab')
}

/** What a linear makes, or the cotangent of what it takes, [tokens, features] with one of these features. */
export function isLinear(value: WantedValue, features: readonly string[]): boolean {
  const { factors, madeBy } = value
  const isMade = madeBy === 'matmul' && factors.length === 2 && isAlong(value, 0, 'batch')
  return isMade && features.some((axis) => isAlong(value, 1, axis))
}
