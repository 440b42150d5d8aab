import fc from 'fast-check'
import { type Graph, GraphBuilder, type Tensor, type ValueId } from '../../src/graph/index.ts'
import { Numbers, seeds } from './randomTensors.ts'

/** A forward graph with a `loss` as a model has it, and tensors for its inputs. */
export interface RandomModel {
  readonly graph: Graph
  readonly inputs: Map<string, Tensor>
}

interface Step {
  readonly kind: number
  readonly first: number
  readonly second: number
  /** Whether a new block begins here. */
  readonly cut: boolean
}

/**
 * Small models of smooth ops in float64: matrices, tables, tied and untied parameters, norms, attention, several blocks.
 * Everything that nothing uses flows into the loss.
 */
export const randomModels: fc.Arbitrary<RandomModel> = fc
  .record({
    rows: fc.integer({ min: 1, max: 3 }),
    width: fc.constantFrom(2, 4),
    steps: fc.array(
      fc.record({
        kind: fc.nat(stepKinds().length - 1),
        first: fc.nat(30),
        second: fc.nat(30),
        cut: fc.boolean(),
      }),
      { minLength: 3, maxLength: 14 },
    ),
    seed: seeds,
  })
  .map(({ rows, width, steps, seed }) => new ModelWriter(rows, width, seed).write(steps))

type StepKind = (writer: ModelWriter, first: ValueId, second: ValueId, pick: number) => ValueId

function stepKinds(): readonly StepKind[] {
  return [
    ({ builder }, x) => builder.one('tanh', [x], {}, 'tanh'),
    ({ builder }, x) => builder.one('geluTanh', [x], {}),
    ({ builder }, x) => builder.one('exp', [builder.one('tanh', [x], {})], {}),
    ({ builder }, x, y) => builder.one('add', [x, y], {}, 'sum'),
    ({ builder }, x, y) => builder.one('mul', [x, builder.one('sigmoid', [y], {})], {}),
    ({ builder }, x, y) =>
      builder.one('where', [builder.one('less', [builder.one('tanh', [x], {}), y], {}), x, x], {}),
    ({ builder }, x) => builder.one('softmax', [x], {}),
    (writer, x, _, pick) => writer.linear(x, pick),
    (writer, x, _, pick) => writer.linear(x, pick + 1),
    (writer, x, _, pick) => writer.norm(x, pick),
    (writer, x, _, pick) => writer.embed(x, pick),
    (writer, x, _, pick) => writer.embed(x, pick),
    (writer, x, y) => writer.attend(x, y),
    (writer, x, y) => writer.shuffle(x, y),
    (writer, x) => writer.rescale(x),
  ]
}

class ModelWriter {
  readonly builder = new GraphBuilder()
  private readonly inputs = new Map<string, Tensor>()
  private readonly numbers: Numbers
  private readonly rows: number
  private readonly width: number

  constructor(rows: number, width: number, seed: number) {
    this.rows = rows
    this.width = width
    this.numbers = new Numbers(seed)
  }

  write(steps: readonly Step[]): RandomModel {
    const { builder } = this
    builder.startBlock('b0')
    // All matrices are [rows, width], so any two fit any step.
    const values = [this.embed(undefined, 0)]
    let blocks = 1
    const used = new Set<ValueId>()
    for (const { kind, first, second, cut } of steps) {
      if (cut && blocks < 4) builder.startBlock(`b${blocks++}`)
      const x = values[values.length - 1 - (first % Math.min(values.length, 4))]!
      const y = values[second % values.length]!
      const made = stepKinds()[kind]!(this, x, y, second % 3)
      const producer = builder.producer(made)
      for (const input of producer?.inputs ?? []) used.add(input)
      used.add(x)
      values.push(made)
    }
    const all = { dims: [0, 1], keepDims: false }
    const terms = [...new Set(values)]
      .filter((value) => !used.has(value))
      .map((value) => builder.one('reduceSum', [builder.one('tanh', [value], {})], all))
    builder.output(
      'loss',
      terms.reduce((sum, term) => builder.one('add', [sum, term], {})),
    )
    return { graph: builder.build(), inputs: this.inputs }
  }

  private parameter(name: string, shape: readonly number[]): ValueId {
    const known = this.builder.findInput(name)
    if (known !== undefined) return known
    const tensor = this.numbers.floats('f64', shape, -0.8, 0.8)
    this.inputs.set(name, tensor)
    return this.builder.input(name, 'parameter', tensor.type)
  }

  private tokens(): ValueId {
    const known = this.builder.findInput('tokens')
    if (known !== undefined) return known
    const tensor = this.numbers.integers([this.rows], 0, this.width - 1)
    this.inputs.set('tokens', tensor)
    return this.builder.input('tokens', 'data', tensor.type)
  }

  /** x W + b, where W may be a table that is embedded from elsewhere. */
  linear(x: ValueId, pick: number): ValueId {
    const weight = this.parameter(`weight.${pick % 2}`, [this.width, this.width])
    const bias = this.parameter(`bias.${pick}`, [this.width])
    const attributes = { transposeA: false, transposeB: pick === 1, scale: 0.5 }
    return this.builder.one('add', [this.builder.one('matmul', [x, weight], attributes), bias], {}, 'linear')
  }

  norm(x: ValueId, pick: number): ValueId {
    const weight = this.parameter('norm.weight', [this.width])
    if (pick === 0) return this.builder.one('rmsNorm', [x, weight], { epsilon: 0.01 })
    const bias = this.parameter(`bias.${pick}`, [this.width])
    return this.builder.one('layerNorm', [x, weight, bias], { epsilon: 0.01 }, 'norm')
  }

  /** Rows of a weight, some of them through a transposed copy that is no graph input. */
  embed(x: ValueId | undefined, pick: number): ValueId {
    const { builder } = this
    let table = this.parameter(`weight.${pick % 2}`, [this.width, this.width])
    if (pick === 2) table = builder.one('transpose', [table], { permutation: [1, 0] })
    const rows = builder.one('gather', [table, this.tokens()], {})
    return x === undefined ? rows : builder.one('add', [x, rows], {})
  }

  attend(x: ValueId, y: ValueId): ValueId {
    const { builder, rows, width } = this
    const heads = (value: ValueId): ValueId =>
      builder.one('transpose', [builder.one('reshape', [value], { shape: [1, rows, 2, width / 2] })], {
        permutation: [0, 2, 1, 3],
      })
    const attributes = { scale: 0.7, causal: true }
    const mixed = builder.one('attention', [heads(x), heads(y), heads(x)], attributes)
    const merged = builder.one('transpose', [mixed], { permutation: [0, 2, 1, 3] })
    return builder.one('reshape', [merged], { shape: [rows, width] })
  }

  shuffle(x: ValueId, y: ValueId): ValueId {
    const { builder, width } = this
    const [left] = builder.op('split', [x], { dim: 1, sizes: [width / 2, width / 2] })
    const [, right] = builder.op('split', [y], { dim: 1, sizes: [width / 2, width / 2] })
    return builder.one('concat', [right!, left!], { dim: 1 })
  }

  rescale(x: ValueId): ValueId {
    const factor = this.builder.one('fill', [], { shape: [1, this.width], dtype: 'f64', value: 0.75 })
    return this.builder.one('mul', [x, factor], {})
  }
}
