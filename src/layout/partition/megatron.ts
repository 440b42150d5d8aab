import type { Graph } from '../../graph/index.ts'
import { makeLayout, replicatedLayout } from '../layout.ts'
import type { Layout } from '../types.ts'
import type { Wants } from './types.ts'

interface ParameterRule {
  readonly match: RegExp
  /** The dim that is cut. */
  readonly dim: number
}

/** Linear weights are [out, in] in llama and [in, out] in gpt; tables are [rows, embed]. */
const parameterRules: readonly ParameterRule[] = [
  { match: /\.(embed_tokens|wte)\.weight$|^lm_head\.weight$/, dim: 0 },
  // Column then row.
  { match: /\.(q_proj|k_proj|v_proj|gate_proj|up_proj)\.weight$/, dim: 0 },
  { match: /\.(o_proj|down_proj)\.weight$/, dim: 1 },
  // The queries, keys and values of gpt's attention are one matrix, of which no run of columns is whole heads of each.
  { match: /\.mlp\.c_fc\.weight$/, dim: 1 },
  { match: /\.mlp\.c_fc\.bias$/, dim: 0 },
  { match: /\.mlp\.c_proj\.weight$/, dim: 0 },
]

export interface MegatronOptions {
  /** The residual stream cut along the sequence (Korthikanti et al. 2022, section 4.2.2). */
  readonly sequenceParallel?: boolean
  /** Axes that cut the samples; none where left out. */
  readonly samples?: readonly string[]
}

/**
 * Tensor parallelism over one axis as Megatron-LM has it (Shoeybi et al. 2019, section 3): pairs of linears cut by column and then by
 * row, embedding, head and loss by vocabulary. `graph` is a gpt or a llama, or the forward and backward of a stage of one;
 * gpt's attention stays whole. Gradients (`g.<parameter>`) lie as their parameters.
 */
export function megatron(graph: Graph, axis: string, options: MegatronOptions = {}): Wants {
  const cutAt = (rank: number, dim: number): Layout =>
    makeLayout(Array.from({ length: rank }, (_, own) => (own === dim ? [axis] : [])))
  const parameters = new Map(
    graph.inputs.flatMap(({ name, kind, value }) => {
      if (kind !== 'parameter') return []
      const rank = graph.values[value]!.type.shape.length
      const rule = parameterRules.find(({ match }) => match.test(name))
      return [[name, rule === undefined ? replicatedLayout(rank) : cutAt(rank, rule.dim)] as const]
    }),
  )
  const samples = options.samples ?? []
  // All values of three dims belong to it: linears have two, attention four.
  const stream = makeLayout([samples, options.sequenceParallel === true ? [axis] : [], []])
  return ({ role, name, type, kind }) => {
    const isStream = type.shape.length === 3
    if (role === 'result') return isStream ? stream : undefined
    if (role === 'input' && kind === 'data')
      return makeLayout(type.shape.map((_, dim) => (dim === 0 ? samples : [])))
    if (role === 'input') return parameters.get(name!) ?? (isStream ? stream : undefined)
    // What is neither a parameter's nor of the stream, such as the loss, is whole.
    return (
      parameters.get(name!.replace(/^g\./, '')) ?? (isStream ? stream : replicatedLayout(type.shape.length))
    )
  }
}
