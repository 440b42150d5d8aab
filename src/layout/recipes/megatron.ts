import { headCuts } from './context.ts'
import { expertCuts, isOfExperts } from './experts.ts'
import type { FactoredAxes, LayoutSettings } from './settings.ts'
import type { RecipeCuts } from './wants.ts'

/**
 * Tensor parallelism over one axis as Megatron-LM has it: pairs of linears cut by column and then by row, which is along
 * the logical axis between them (Shoeybi et al. 2019, section 3); embedding, head and loss by vocabulary; the residual stream
 * along the sequence (Korthikanti et al. 2022, section 4.2.2). Where there are fewer kv heads than ranks, ranks of a group
 * have the same one.
 */
export function megatronCuts(settings: LayoutSettings, axes: FactoredAxes): RecipeCuts {
  const { parts } = axes
  const of = (name: string): readonly string[] => parts[name] ?? []
  const tensor = of('tensor')
  const heads = { kv: parts['tensor.kv'] ?? tensor, group: of('tensor.group') }
  const experts = expertCuts(axes)
  const vocab = settings.vocabulary ? tensor : []
  return {
    parameter: (value) => (isOfExperts(value) ? experts : { ...headCuts(heads), mlp: tensor, vocab }),
    heads,
    products: { kind: 'still', axes: tensor },
    stream: {
      batch: of('data'),
      sequence: settings.sequence ? [...of('context'), ...tensor] : of('context'),
    },
  }
}
