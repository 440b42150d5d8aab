/** runs a model's graph, and its gradient, on what a fixture recorded. */
import {
  densify,
  differentiate,
  GraphBuilder,
  interpretGraph,
  makeTensor,
  type Tensor,
} from '../../src/graph/index.ts'
import type { Model } from '../../src/models/index.ts'

export interface Fixture {
  readonly config: unknown
  readonly tokens: readonly (readonly number[])[]
  readonly labels: readonly (readonly number[])[]
  readonly loss: number
  readonly parameters: Readonly<
    Record<
      string,
      {
        readonly shape: readonly number[]
        readonly values: readonly number[]
        readonly gradient: readonly number[]
      }
    >
  >
}

/** Inputs of the model's graph: data of the fixture, weights by name. */
export function inputsOf(
  model: Model,
  data: Pick<Fixture, 'tokens' | 'labels'>,
  weights: (name: string) => ArrayLike<number>,
): Record<string, Tensor> {
  const shape = [data.tokens.length, data.tokens[0]!.length]
  return {
    tokens: makeTensor({ dtype: 'i32', shape }, data.tokens.flat()),
    labels: makeTensor({ dtype: 'i32', shape }, data.labels.flat()),
    ...Object.fromEntries(
      model.parameters.map(({ name, shape }) => [name, makeTensor({ dtype: 'f64', shape }, weights(name))]),
    ),
  }
}

export interface LossAndGradients {
  readonly loss: number
  readonly gradients: ReadonlyMap<string, ArrayLike<number>>
}

/** The summed loss and its gradient for every parameter, by the reference interpreter in float64. */
export function lossAndGradients(model: Model, inputs: Record<string, Tensor>): LossAndGradients {
  const [batch, sequence] = inputs['tokens']!.type.shape
  const forward = model.build({ batch: batch!, sequence: sequence!, dtype: 'f64' })
  const loss = forward.outputs[0]!.value
  const parameters = forward.inputs.filter((input) => input.kind === 'parameter')
  const builder = GraphBuilder.from(forward)
  const one = builder.one('fill', [], { shape: [], dtype: 'f64', value: 1 })
  const found = differentiate(builder, {
    outputs: [{ value: loss, cotangent: one }],
    wanted: parameters.map((parameter) => parameter.value),
  })
  builder.output('loss', loss)
  // What nothing depends on, as the bias that experts are chosen by, has a gradient of zeros.
  for (const { name, value } of parameters)
    builder.output(
      `d ${name}`,
      densify(builder, value, found.get(value)!) ??
        builder.one('fill', [], { shape: builder.type(value).shape, dtype: 'f64', value: 0 }),
    )
  const outputs = interpretGraph(builder.build(), inputs)
  return {
    loss: outputs.get('loss')!.data[0]!,
    gradients: new Map(parameters.map(({ name }) => [name, outputs.get(`d ${name}`)!.data])),
  }
}

/** Largest |a - b| over the larger of b's largest element and 1e-3 (some true gradients are zero). */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let difference = 0
  let scale = 1e-3
  for (let index = 0; index < b.length; index++) {
    difference = Math.max(difference, Math.abs(a[index]! - b[index]!))
    scale = Math.max(scale, Math.abs(b[index]!))
  }
  return a.length === b.length ? difference / scale : Number.POSITIVE_INFINITY
}
