import type { Graph } from '../../graph/index.ts'
import { makeLayout } from '../layout.ts'
import type { ProductStyle, WantedValue, Wants } from '../partition/types.ts'
import type { WantedLayout } from '../rules/target.ts'
import type { Layout, Mesh } from '../types.ts'
import { attentionCuts, type HeadAxes } from './context.ts'
import { type Cuts, cutDims, hasAxis } from './dims.ts'
import { slotCuts } from './experts.ts'
import { applyRules } from './rules.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'

/** Where a recipe has each kind of value. */
export interface RecipeCuts {
  /** Of a parameter, and of its gradient. */
  readonly parameter: (value: WantedValue) => Cuts
  /** The same by factor, where names of logical axes do not say it: undefined where they do. */
  readonly parameterDims?: (value: WantedValue) => Layout['dims'] | undefined
  /** The residual stream, [batch, sequence, embed]. */
  readonly stream: Cuts
  readonly heads: HeadAxes
  /** Any other value that an op makes; undefined where what it is made of says. */
  readonly result?: (value: WantedValue) => Cuts | undefined
  readonly products?: ProductStyle
}

/** Wants of all values of a graph: what the recipe cuts, then what the rules of the plan say; `used` is told which rules do. */
export function recipeWants(
  { parameter, parameterDims, stream, heads, result, products }: RecipeCuts,
  settings: LayoutSettings,
  axes: FactoredAxes,
  graph: Graph,
  used?: (rule: number) => void,
): Wants {
  const { mesh, parts } = axes
  const parameters = new Set(graph.inputs.flatMap(({ name, kind }) => (kind === 'parameter' ? [name] : [])))
  const samples = {
    batch: (parts['data'] ?? []).filter((axis) => mesh.axes.some(({ name }) => name === axis)),
  }
  const byRecipe = (value: WantedValue): WantedLayout | undefined => {
    const { role, name, kind } = value
    if (kind === 'data') return makeLayout(cutDims(value, samples, mesh))
    if (kind === 'parameter')
      return makeLayout(parameterDims?.(value) ?? cutDims(value, parameter(value), mesh))
    const own = role === 'output' ? /^g\.(.+?)(\.rows\d+(\.ids)?)?$/.exec(name!)?.[1] : undefined
    if (own !== undefined && parameters.has(own)) return undefined
    if (isStream(value)) return makeLayout(cutDims(value, stream, mesh))
    if (role === 'result') {
      const slots = slotCuts(value, axes, stream)
      if (slots !== undefined) {
        const layout = makeLayout(cutDims(value, slots.cuts, mesh))
        return slots.keepsTerms ? { ...layout, keepsTerms: true } : layout
      }
      const cuts = attentionCuts(value, heads, stream, settings, axes) ?? result?.(value)
      return cuts === undefined ? undefined : makeLayout(cutDims(value, cuts, mesh))
    }
    // What stages pass on beside the stream, such as losses of samples, lies alike on both sides.
    if (role === 'input' || isPassedOn(name!))
      return makeLayout(cutDims(value, { batch: stream['batch'] ?? [] }, mesh))
    // A loss comes as it is made.
    return undefined
  }
  const wants = (value: WantedValue): WantedLayout | undefined => {
    const layout = byRecipe(value)
    if (value.name === undefined || settings.rules.length === 0) return layout
    const ruling = applyRules(settings.rules, parts, { name: value.name, axes: value.type.axes ?? [] })
    if (ruling === undefined) return layout
    used?.(ruling.rule)
    const dims = ruling.dims.map((own, dim) => own ?? layout?.dims[dim] ?? [])
    const ruled = makeLayout(takenApart(dims, value, mesh), ruling)
    return ruling.keep ? { ...ruled, keep: true } : ruled
  }
  return products === undefined ? wants : Object.assign(wants, { products })
}

/** Values that cross stages, and their cotangents. */
function isPassedOn(output: string): boolean {
  return /^(d\.)?x\d+(\.\d+)?$/.test(output)
}

/** Dims as a value has them, of which some are several factors, by factor: the outermost that divides takes an axis. */
function takenApart(
  dims: readonly (readonly string[])[],
  { type: { shape }, factors }: WantedValue,
  mesh: Mesh,
): readonly (readonly string[])[] {
  if (dims.length !== factors.length || dims.length === shape.length) return dims
  let at = 0
  return dims.flatMap((over, dim) => {
    const sizes = shape.slice(at, at + factors[dim]!)
    at += sizes.length
    const names = sizes.map((_, factor) => `part.${factor}`)
    const type = { dtype: 'f32', shape: sizes, axes: names } as const
    return cutDims({ type }, { part: over }, mesh)
  })
}

/** Models keep it in three dims; where its tokens are one dim it is on its way, and terms of it may still be added up. */
function isStream(value: WantedValue): boolean {
  const { kind, type, factors } = value
  return (
    kind !== 'parameter' &&
    factors.length === 3 &&
    hasAxis(value, 'sequence') &&
    type.axes?.at(-1) === 'embed'
  )
}
