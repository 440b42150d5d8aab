import {
  densify,
  differentiate,
  type Graph,
  GraphBuilder,
  isFloat,
  type Tensor,
  type ValueId,
} from '../../src/graph/index.ts'
import {
  cuttableOp,
  flattenedProducts,
  type Layout,
  type Mesh,
  meshSize,
  type OpPlan,
  opPlans,
  type Redistribution,
} from '../../src/layout/index.ts'
import { collect, execute, type Spread, spread } from './layoutExecutor.ts'
import { computeByBlocks } from './layoutOps.ts'

export interface BlockRun {
  readonly outputs: ReadonlyMap<string, Tensor['data']>
  readonly predictedElements: number
  readonly sentElements: number
}

interface Choices {
  readonly layoutOf: (name: string, shape: readonly number[]) => Layout
  readonly choose: (plans: readonly OpPlan[]) => OpPlan
  readonly random: () => number
}

/** Runs a graph on all ranks of a mesh, op by op: operands are redistributed as the chosen plan of each op needs them. */
export function runByBlocks(
  graph: Graph,
  inputs: ReadonlyMap<string, Tensor>,
  mesh: Mesh,
  { layoutOf, choose, random }: Choices,
): BlockRun {
  const values: Spread[] = []
  const sent = new Array<number>(meshSize(mesh)).fill(0)
  let predictedElements = 0
  const move = ({ steps, wireBytes, type }: Redistribution, from: Spread): Spread => {
    predictedElements += wireBytes / { f32: 4, f64: 8, i32: 4, bool: 1 }[type.dtype]
    return steps.reduce((held, step) => execute(step, held, sent), from)
  }
  for (const { name, value } of graph.inputs) {
    const { data, type } = inputs.get(name)!
    values[value] = spread(data, type.shape, mesh, layoutOf(name, type.shape), random)
  }
  const typesOf = (ids: readonly ValueId[]) => ids.map((id) => graph.values[id]!.type)
  const flattened = flattenedProducts(graph)
  const needed = new Set(graph.outputs.map(({ value }) => value))
  for (const [index, { inputs, outputs }] of [...graph.nodes.entries()].reverse())
    if (outputs.some((output) => needed.has(output)))
      for (const input of flattened.get(index)?.operands ?? inputs) needed.add(input)
  for (const [index, { op, attributes, inputs, outputs }] of graph.nodes.entries()) {
    if (!outputs.some((output) => needed.has(output))) continue
    const product = flattened.get(index)
    const ids = product?.operands ?? inputs
    const node =
      product?.op ?? cuttableOp({ op, attributes, inputs: typesOf(inputs), outputs: typesOf(outputs) })
    const layouts = ids.map((id) => values[id]!.layout)
    const plan = choose(opPlans(node, { mesh, layouts }))
    // What was moved is there for the next op as well.
    const operands = ids.map((id, input) => move(plan.operands[input]!, values[id]!))
    ids.forEach((id, input) => {
      if (plan.operands[input]!.wireBytes > 0) values[id] = operands[input]!
    })
    const results = computeByBlocks(node, operands, mesh, plan.assignment)
    outputs.forEach((id, output) => {
      values[id] = results[output]!
    })
  }
  return {
    outputs: new Map(graph.outputs.map(({ name, value }) => [name, collect(values[value]!, 1e-9)])),
    predictedElements,
    sentElements: sent.reduce((sum, elements) => sum + elements, 0),
  }
}

/** The graph with the derivative of its `loss` with respect to every float input as further outputs. */
export function withGradients(graph: Graph): Graph {
  const builder = GraphBuilder.from(graph)
  for (const { name, value } of graph.outputs) builder.output(name, value)
  const loss = graph.outputs.find(({ name }) => name === 'loss')!.value
  const wanted = graph.inputs.filter(({ value }) => isFloat(builder.type(value).dtype))
  const cotangent = builder.one('fill', [], { shape: [], dtype: 'f64', value: 1 })
  const gradients = differentiate(builder, {
    outputs: [{ value: loss, cotangent }],
    wanted: wanted.map(({ value }) => value),
  })
  for (const { name, value } of wanted) {
    const dense = densify(builder, value, gradients.get(value)!)
    if (dense !== undefined) builder.output(`gradient of ${name}`, dense)
  }
  return builder.build({ keepInputs: true })
}
