import { assertNever } from '../../base/index.ts'
import type { Graph } from '../../graph/index.ts'
import { maskedAttention } from '../context/maskedAttention.ts'
import { ringAttention } from '../context/ringAttention.ts'
import { axesSize } from '../mesh.ts'
import type { Wants } from '../partition/types.ts'
import { cubeCuts } from './cube.ts'
import { megatronCuts } from './megatron.ts'
import { optimusCuts } from './optimus.ts'
import { padVocabulary } from './padVocabulary.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'
import { type RecipeCuts, recipeWants } from './wants.ts'

/**
 * Where the values of a graph, the forward and backward of a stage, are to lie under a plan's layout. `used` is told the
 * index of each rule of the plan that says something of a value.
 */
export function layoutWants(
  settings: LayoutSettings,
  axes: FactoredAxes,
  graph: Graph,
  used?: (rule: number) => void,
): Wants {
  return recipeWants(recipeCuts(settings, axes, graph), settings, axes, graph, used)
}

/**
 * The forward graph of a model in the form in which a plan's layout can cut it: the same mathematics. Tables of its vocabulary
 * get `paddedVocabulary` rows, the other sizes are the model's.
 */
export function layoutForm(
  settings: LayoutSettings,
  { mesh, parts }: FactoredAxes,
  original: Graph,
  paddedVocabulary?: number,
): Graph {
  const { context, zigzag } = settings
  const model = paddedVocabulary === undefined ? original : padVocabulary(original, paddedVocabulary)
  const ranks = axesSize(mesh, parts['context'] ?? [])
  switch (context) {
    case 'ring':
      return ringAttention(model, { parts: ranks, zigzag })
    case 'gather':
      return maskedAttention(model, { parts: ranks, zigzag })
    case 'ulysses':
    case null:
      return model
    default:
      return assertNever(context)
  }
}

function recipeCuts(settings: LayoutSettings, axes: FactoredAxes, graph: Graph): RecipeCuts {
  switch (settings.tensor) {
    case null:
    case 'megatron':
      return megatronCuts(settings, axes)
    case 'optimus':
      return optimusCuts(settings, axes, graph)
    case 'cube':
      return cubeCuts(settings, axes, graph)
    default:
      return assertNever(settings.tensor)
  }
}
