import * as z from 'zod'
import { MeshwrightError } from '../base/index.ts'
import {
  type ContextRecipe,
  type LayoutRecipe,
  layoutRecipes,
  parseLayout,
  type TensorRecipe,
} from '../layout/index.ts'
import type { Locate } from './check.ts'
import type { PlanProblem } from './problems.ts'

/** How a model is laid out over the mesh. `null` stands for "as it follows". */
export interface PlanLayout {
  /** Null: as `mesh.tensor` is written. */
  readonly tensor: TensorRecipe | null
  readonly sequence: boolean
  readonly vocabulary: boolean
  readonly context: ContextRecipe
  /** Null: as the recipe has it, where attention is causal. */
  readonly zigzag: boolean | null
  readonly gathered: boolean
  readonly overlap: number
  readonly rules: readonly PlanLayoutRule[]
}

/** By `layout`, of values whose names match; or by a logical axis and the mesh axes `over` which it is cut. */
export interface PlanLayoutRule {
  readonly match: string | null
  readonly axis: string | null
  readonly layout: string | null
  readonly over: readonly string[] | null
  readonly keep: boolean
}

/** The most chunks, and the most rules. */
const maximumOverlap = 1024
const maximumRules = 100

const recipeNames = (kind: LayoutRecipe['kind']): [string, ...string[]] =>
  layoutRecipes.filter((recipe) => recipe.kind === kind).map(({ name }) => name) as [string, ...string[]]

/** A recipe's setting, as a schema: the registry says what it is. */
function parameterSchema(key: 'sequence' | 'vocabulary' | 'zigzag' | 'gathered'): z.ZodType {
  const having = layoutRecipes.filter(({ parameters }) => Object.hasOwn(parameters, key))
  const { summary, default: byDefault } = having[0]!.parameters[key]!
  const description = `${summary} (${having.map(({ name }) => name).join(', ')})`
  if (key !== 'zigzag') return z.boolean().default(byDefault).meta({ description })
  return z
    .boolean()
    .nullable()
    .default(null)
    .meta({ description: `${description}; left out: with ring, where attention is causal` })
}

function recipesOf(kind: LayoutRecipe['kind']): string {
  return layoutRecipes
    .filter((recipe) => recipe.kind === kind)
    .map(({ name, summary }) => `${name} = ${summary}`)
    .join('; ')
}

const name = z.string().min(1).max(200)
const rule = z
  .strictObject({
    match: name.nullable().default(null).meta({
      description:
        'names of values, * for any characters, as model.layers.*.mlp.up_proj.weight; left out: all',
    }),
    axis: name.nullable().default(null).meta({ description: 'the logical axis that is cut, as mlp' }),
    layout: z
      .string()
      .min(1)
      .max(1000)
      .nullable()
      .default(null)
      .meta({ description: 'where they lie, as [tensor | .]' }),
    over: z
      .array(name)
      .max(16)
      .nullable()
      .default(null)
      .meta({ description: 'mesh axes that cut axis, outermost first' }),
    keep: z.boolean().default(false).meta({ description: 'held so for the backward' }),
  })
  .meta({ description: 'match and layout, or axis and over' })

const mapping = z.strictObject({
  tensor: z
    .enum(recipeNames('tensor'))
    .nullable()
    .default(null)
    .meta({ description: `${recipesOf('tensor')}; left out: as mesh.tensor is written` }),
  sequence: parameterSchema('sequence'),
  vocabulary: parameterSchema('vocabulary'),
  context: z
    .enum(recipeNames('context'))
    .default('ring')
    .meta({ description: recipesOf('context') }),
  zigzag: parameterSchema('zigzag'),
  gathered: parameterSchema('gathered'),
  overlap: z
    .int()
    .min(1)
    .max(maximumOverlap)
    .default(1)
    .meta({ description: 'chunks that a collective and the product beside it are cut into' }),
  rules: z
    .array(rule)
    .max(maximumRules)
    .default([])
    .meta({ description: 'layouts of some values, later ones first; see below' }),
})

const recipe = z.enum(layoutRecipes.map((known) => known.name) as [string, ...string[]])

export const layoutSchema: z.ZodType = z
  .union([recipe, z.array(recipe).min(1).max(2), mapping])
  .nullable()
  .default(null)
  .meta({ description: 'how the model is laid out over the mesh: recipes by name, or a mapping' })

const byDefault: PlanLayout = mapping.parse({}) as PlanLayout

/** Writes out short forms. What the schema cannot see is added to `problems`. */
export function fillLayout(layout: unknown, locate: Locate, problems: PlanProblem[]): PlanLayout {
  if (layout === null) return byDefault
  if (typeof layout === 'string') return { ...byDefault, ...kindOf(layout) }
  if (!Array.isArray(layout)) {
    const filled = layout as PlanLayout
    for (const [index, given] of filled.rules.entries()) checkRule(given, index, locate, problems)
    return filled
  }
  const [first, second] = layout as string[]
  if (second !== undefined && Object.keys(kindOf(first!))[0] === Object.keys(kindOf(second))[0])
    problems.push({
      code: 'PLAN_LAYOUT',
      message: `${first} and ${second} say the same thing in two ways`,
      at: locate(['layout', 1], 'value'),
      hint: `at most one of ${recipeNames('tensor').join(', ')} and one of ${recipeNames('context').join(', ')}`,
    })
  return { ...byDefault, ...kindOf(first!), ...(second === undefined ? {} : kindOf(second)) }
}

/** A short form as the mapping that it stands for; anything else as it is. */
export function longLayout(layout: unknown): unknown {
  const names: readonly unknown[] = Array.isArray(layout) ? layout : [layout]
  const known = names.every((name) => layoutRecipes.some((candidate) => candidate.name === name))
  return known ? Object.assign({}, ...names.map((name) => kindOf(name as string))) : layout
}

function kindOf(recipeName: string): Partial<PlanLayout> {
  return { [layoutRecipes.find((known) => known.name === recipeName)!.kind]: recipeName }
}

function checkRule(
  { match, axis, layout, over }: PlanLayoutRule,
  index: number,
  locate: Locate,
  problems: PlanProblem[],
): undefined {
  const problem = (message: string, hint: string | undefined, key?: string): undefined => {
    problems.push({
      code: 'PLAN_LAYOUT',
      message,
      at: locate(['layout', 'rules', index, ...(key === undefined ? [] : [key])], 'value'),
      ...(hint === undefined ? {} : { hint }),
    })
  }
  const forms = 'give match and layout, or axis and over'
  const given = [match, axis, layout, over]
  if (layout === null ? axis === null || over === null : match === null || axis !== null || over !== null) {
    const keys = ['match', 'axis', 'layout', 'over'].filter((_, key) => given[key] !== null)
    return problem(`a rule of ${keys.join(', ') || 'nothing'} does not say what lies where`, forms)
  }
  if (layout === null) return undefined
  try {
    parseLayout(layout)
    return undefined
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    return problem(`column ${error.at?.column ?? 1} of the layout: ${error.message}`, error.hint, 'layout')
  }
}

/** The form in which people write it; null where nothing is set. */
export function writeLayout(layout: PlanLayout): Record<string, unknown> | null {
  const changed = Object.entries(layout).flatMap(([key, value]) => {
    if (key === 'rules') return layout.rules.length === 0 ? [] : [[key, layout.rules.map(writeRule)] as const]
    return value === byDefault[key as keyof PlanLayout] ? [] : [[key, value as unknown] as const]
  })
  return changed.length === 0 ? null : Object.fromEntries(changed)
}

function writeRule(given: PlanLayoutRule): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== false))
}
