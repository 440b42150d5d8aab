import type { Graph } from '../../graph/index.ts'
import type { WantedValue } from '../partition/types.ts'
import { headCuts } from './context.ts'
import { hasAxis } from './dims.ts'
import { cutFactors, isAlong, linearDims } from './linears.ts'
import { isLinear, isTable } from './optimus.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'
import type { RecipeCuts } from './wants.ts'

/**
 * Tensor parallelism over a cube of ranks (Bian et al. 2021), whose axes x, y and z are the i, j and k of the paper. Rows of the
 * stream are cut by x and y, features by z; what the first linear of a pair makes has y and z swapped, and the second swaps
 * them back. A weight is cut over all three: along what it takes by the axis of those features and by x, along what it gives
 * by the other. Vectors go with the features that they belong to.
 */
export function cubeCuts(settings: LayoutSettings, { mesh, parts }: FactoredAxes, graph: Graph): RecipeCuts {
  const of = (name: string): readonly string[] => parts[name] ?? []
  const [x, y, z] = [of('tensor.x'), of('tensor.y'), of('tensor.z')]
  const heads = { kv: y, group: [] }
  const sequence = of('context')
  const wide = { ...headCuts(heads), mlp: y, vocab: settings.vocabulary ? y : [] }
  const experts = { experts: of('expert'), expertMlp: of('expertTensor') }
  const linears = linearDims(graph)
  const parameterDims = (value: WantedValue): readonly (readonly string[])[] | undefined => {
    if (hasAxis(value, 'experts')) return undefined
    const dims = value.factors.map((): readonly string[] => [])
    const linear = linears.get(value.name!)
    if (isTable(value)) {
      dims[0] = settings.vocabulary ? y : []
      dims[1] = [...z, ...x]
    } else if (linear === undefined) {
      const last = dims.length - 1
      dims[last] = isAlong(value, last, 'embed') ? z : y
    } else {
      const isSecond = isAlong(value, linear.given, 'embed')
      dims[linear.taken] = isSecond ? [...y, ...x] : [...z, ...x]
      dims[linear.given] = isSecond ? z : y
    }
    return cutFactors(value, dims, mesh).dims
  }
  return {
    parameter: () => experts,
    parameterDims,
    heads,
    stream: { batch: [...of('data'), ...x, ...y], sequence, embed: z },
    result: (value) =>
      isLinear(value, Object.keys(wide))
        ? { batch: [...of('data'), ...x, ...z], sequence, ...wide }
        : undefined,
    ...([x, y, z].some(({ length }) => length === 0)
      ? {}
      : { products: { kind: 'blocks', axes: [...x, ...y, ...z] } }),
  }
}
