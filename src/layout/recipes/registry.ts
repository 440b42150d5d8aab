import type { ContextRecipe, TensorRecipe } from './settings.ts'

/** A setting of recipes; all are true or false. */
export interface RecipeParameter {
  readonly summary: string
  readonly default: boolean
}

/** What help, schema and documents say of a recipe. */
export type LayoutRecipe = {
  readonly summary: string
  readonly source: string
  readonly parameters: Readonly<Record<string, RecipeParameter>>
} & (
  | { readonly kind: 'tensor'; readonly name: TensorRecipe }
  | { readonly kind: 'context'; readonly name: ContextRecipe }
)

const vocabulary: RecipeParameter = {
  summary: 'embedding, head and loss cut by vocabulary, which is padded where it does not divide',
  default: true,
}
const gathered: RecipeParameter = {
  summary: 'what was gathered is held for the backward, not gathered again',
  default: false,
}
const zigzag = (byDefault: boolean): RecipeParameter => ({
  summary: 'each rank has an early and a late run of tokens, so that causal attention is even',
  default: byDefault,
})

export const layoutRecipes: readonly LayoutRecipe[] = [
  {
    kind: 'tensor',
    name: 'megatron',
    summary: '1-D: linears in pairs, cut by column and then by row',
    source: 'Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2',
    parameters: {
      sequence: {
        summary: 'the residual stream cut along the sequence, over tensor',
        default: false,
      },
      vocabulary,
      gathered,
    },
  },
  {
    kind: 'tensor',
    name: 'optimus',
    summary: '2-D: activations and weights in blocks on a square of rows and columns, products by SUMMA',
    source: 'Xu et al. 2021',
    parameters: { vocabulary },
  },
  {
    kind: 'tensor',
    name: 'cube',
    summary: '3-D: activations and weights in pieces on a cube, gathered along two axes for each product',
    source: 'Bian et al. 2021',
    parameters: {
      vocabulary,
      gathered,
    },
  },
  {
    kind: 'context',
    name: 'ring',
    summary: 'keys and values go around a ring of ranks, block by block',
    source: 'Liu et al. 2023',
    parameters: { zigzag: zigzag(true) },
  },
  {
    kind: 'context',
    name: 'gather',
    summary: 'keys and values of all tokens are gathered',
    source: 'Grattafiori et al. 2024, section 3.3.2',
    parameters: { zigzag: zigzag(false), gathered },
  },
  {
    kind: 'context',
    name: 'ulysses',
    summary: 'ranks have all tokens of some heads during attention, by all-to-all',
    source: 'Jacobs et al. 2023',
    parameters: {},
  },
]

export function findRecipe(name: TensorRecipe | ContextRecipe): LayoutRecipe {
  return layoutRecipes.find((recipe) => recipe.name === name)!
}
