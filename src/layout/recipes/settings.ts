import type { Layout, Mesh, MeshAxis } from '../types.ts'

/** How the tensor axes cut linears, tables and the residual stream. */
export type TensorRecipe = 'megatron' | 'optimus' | 'cube'
/** How attention gets at keys and values of tokens that other ranks have. */
export type ContextRecipe = 'ring' | 'gather' | 'ulysses'

/** What a plan says of the layout of a model, resolved: plain data from which recipes make wants and rewrites. */
export interface LayoutSettings {
  /** Null where there is one rank along `tensor`. */
  readonly tensor: TensorRecipe | null
  /** Of megatron: the residual stream is cut along the sequence, over `tensor`. */
  readonly sequence: boolean
  /** The vocabulary of embedding, head and loss is cut over `tensor`. */
  readonly vocabulary: boolean
  /** Null where there is one rank along `context`. */
  readonly context: ContextRecipe | null
  /** Each rank along `context` has the tokens of two of 2 · context equal runs: the n-th from either end. */
  readonly zigzag: boolean
  /** What was gathered is held for the backward, not gathered again. */
  readonly gathered: boolean
  /** Chunks that a collective and the product beside it are cut into. */
  readonly overlap: number
  /** Later ones win. */
  readonly rules: readonly PlacementRule[]
}

/**
 * Where some values lie, whatever the recipe says: those whose names match get a layout (`layout`), or the dims of a logical axis
 * of them are cut (`axis`, `over`). Mesh axes are named as in the plan (`tensor`, `tensor.row`, `expert`), or by the
 * parts of them (`FactoredAxes.parts`).
 */
export interface PlacementRule {
  /** A glob: `*` stands for any characters. Null: every value. */
  readonly match: string | null
  readonly place:
    | { readonly kind: 'layout'; readonly layout: Layout }
    | { readonly kind: 'axis'; readonly axis: string; readonly over: readonly string[] }
  /** What the rule places is held so for the backward. */
  readonly keep: boolean
}

/** How the ranks of an actor are factored, for what is dense and for experts alike. */
export interface FactoredAxes {
  /**
   * Axes over which layouts cut, outermost first, none of size 1: data axes that experts are cut over, then `context`, then
   * `tensor`, or the parts of each. Parts are named `<axis>.<part>`.
   */
  readonly mesh: Mesh
  /** Data axes outside of it, which are outside of the mesh in the order of ranks too. */
  readonly replicas: readonly MeshAxis[]
  /**
   * Axes that stand for each name, outermost first; nothing where its size is 1. Names are those of the plan (`data`, `context`,
   * `tensor`, `tensor.row`, …), `expertData`, `expert`, `expertTensor`, and `tensor.kv`, `tensor.group`, `context.kv`,
   * `context.group`: heads of keys and values are cut over the `kv` parts, and whole on all ranks along the `group` parts,
   * which have queries of their own.
   */
  readonly parts: Readonly<Record<string, readonly string[]>>
}
