import {
  type FloatDType,
  type Graph,
  GraphBuilder,
  type Tensor,
  type ValueId,
} from '../../src/graph/index.ts'
import { Numbers } from './randomTensors.ts'

export interface TinyGptSizes {
  readonly batch: number
  readonly sequence: number
  readonly hidden: number
  readonly heads: number
  readonly vocabulary: number
  readonly layers: number
  readonly dtype: FloatDType
}

/** GPT-2 written out by hand: tied embedding, learned positions, pre-norm blocks. */
export function tinyGpt(sizes: TinyGptSizes): { graph: Graph; inputs: Map<string, Tensor> } {
  const { batch, sequence, hidden, heads, vocabulary, dtype } = sizes
  const builder = new GraphBuilder()
  const numbers = new Numbers(7)
  const inputs = new Map<string, Tensor>()
  const input = (name: string, kind: 'parameter' | 'data', tensor: Tensor): ValueId => {
    inputs.set(name, tensor)
    return builder.input(name, kind, tensor.type)
  }
  const parameter = (name: string, shape: readonly number[]): ValueId =>
    input(name, 'parameter', numbers.floats(dtype, shape, -0.5, 0.5))
  const linear = (x: ValueId, name: string, from: number, to: number): ValueId => {
    const product = { transposeA: false, transposeB: false, scale: 1 }
    const made = builder.one('matmul', [x, parameter(`${name}.weight`, [from, to])], product)
    return builder.one('add', [made, parameter(`${name}.bias`, [to])], {}, name)
  }
  const norm = (x: ValueId, name: string): ValueId => {
    const operands = [x, parameter(`${name}.weight`, [hidden]), parameter(`${name}.bias`, [hidden])]
    return builder.one('layerNorm', operands, { epsilon: 1e-5 }, name)
  }
  const inHeads = (x: ValueId): ValueId =>
    builder.one(
      'transpose',
      [builder.one('reshape', [x], { shape: [batch, sequence, heads, hidden / heads] })],
      { permutation: [0, 2, 1, 3] },
    )

  const tokens = input('tokens', 'data', numbers.integers([batch, sequence], 0, vocabulary - 1))
  const labels = input('labels', 'data', numbers.integers([batch, sequence], -1, vocabulary - 1))
  builder.startBlock('wte')
  const table = parameter('wte.weight', [vocabulary, hidden])
  const positions = parameter('wpe.weight', [sequence, hidden])
  let x = builder.one('add', [builder.one('gather', [table, tokens], {}), positions], {}, 'embedding')
  for (let layer = 0; layer < sizes.layers; layer++) {
    builder.startBlock(`h.${layer}`)
    const name = `h.${layer}`
    const qkv = linear(norm(x, `${name}.ln_1`), `${name}.attn.c_attn`, hidden, 3 * hidden)
    const [q, k, v] = builder.op('split', [qkv], { dim: 2, sizes: [hidden, hidden, hidden] })
    const attributes = { scale: 1 / Math.sqrt(hidden / heads), causal: true }
    const mixed = builder.one('attention', [inHeads(q!), inHeads(k!), inHeads(v!)], attributes)
    const merged = builder.one(
      'reshape',
      [builder.one('transpose', [mixed], { permutation: [0, 2, 1, 3] })],
      { shape: [batch, sequence, hidden] },
    )
    x = builder.one('add', [x, linear(merged, `${name}.attn.c_proj`, hidden, hidden)], {}, `${name}.middle`)
    const wide = linear(norm(x, `${name}.ln_2`), `${name}.mlp.c_fc`, hidden, 4 * hidden)
    const narrow = linear(builder.one('geluTanh', [wide], {}), `${name}.mlp.c_proj`, 4 * hidden, hidden)
    x = builder.one('add', [x, narrow], {}, name)
  }
  builder.startBlock('head')
  const logits = builder.one(
    'matmul',
    [norm(x, 'ln_f'), table],
    { transposeA: false, transposeB: true, scale: 1 },
    'logits',
  )
  builder.output('loss', builder.one('crossEntropy', [logits, labels], {}, 'loss'))
  return { graph: builder.build(), inputs }
}
