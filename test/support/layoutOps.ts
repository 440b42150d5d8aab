import { GraphBuilder, isFloat, makeTensor, type Tensor, type TensorType } from '../../src/graph/index.ts'
import {
  type Assignment,
  addLocalOp,
  blockShape,
  type CuttableOp,
  canCut,
  commutes,
  coordinatesAt,
  factorGraph,
  heldBlock,
  indicesOf,
  inputLayouts,
  type Layout,
  type Mesh,
  mergedShape,
  meshSize,
  outputLayouts,
  type PartialReduction,
  placeAlong,
  type TypedOp,
} from '../../src/layout/index.ts'
import type { Spread } from './layoutExecutor.ts'
import { runRanks } from './layoutGraph.ts'

/** The op by itself, its dims seen by their factors. */
export function inferredOp({
  op,
  attributes,
  inputs,
}: Pick<TypedOp, 'op' | 'attributes' | 'inputs'>): CuttableOp {
  const builder = new GraphBuilder()
  const operands = inputs.map((type, input) => builder.input(`x${input}`, 'activation', type))
  for (const [output, value] of builder.op(op, operands, attributes).entries())
    builder.output(`y${output}`, value)
  return factorGraph(builder.build({ keepInputs: true })).ops[0]!
}

/** Any valid assignment: `draw(n)` is a number below n. */
export function drawAssignment(node: CuttableOp, mesh: Mesh, draw: (below: number) => number): Assignment {
  const { signature } = node
  const indices: Record<string, string[]> = {}
  const terms: Record<string, { rule: number; reduce: PartialReduction }> = {}
  for (const axis of [...mesh.axes].sort(() => draw(3) - 1)) {
    const choices: (() => void)[] = [() => {}]
    for (const index of indicesOf(signature)) {
      const axes = [...(indices[index] ?? []), axis.name]
      if (canCut(signature, node, mesh, index, axes)) choices.push(() => (indices[index] = axes))
    }
    signature.terms?.forEach(({ inputs, reductions }, rule) => {
      if (!inputs.every((input) => isFloat(node.inputs[input]!.dtype))) return
      for (const reduce of reductions) choices.push(() => (terms[axis.name] = { rule, reduce }))
    })
    choices[draw(choices.length)]!()
    if (!commutes(signature, { indices, terms, varying: [] })) delete terms[axis.name]
  }
  const assignment = { indices, terms, varying: [] }
  return commutes(signature, assignment) ? assignment : { indices: {}, terms: {}, varying: [] }
}

/** Computes an op on every rank from its blocks of the operands, which must lie as the assignment has them. */
export function computeByBlocks(
  node: CuttableOp,
  operands: readonly Spread[],
  mesh: Mesh,
  assignment: Assignment,
): Spread[] {
  const { signature } = node
  const layouts = outputLayouts(signature, assignment)
  const needed = inputLayouts(signature, assignment)
  const places = Array.from({ length: meshSize(mesh) }, (_, place) => coordinatesAt(mesh, place))
  const shapeOf = (layout: Layout, { shape }: TensorType, factors: readonly number[]): number[] =>
    mergedShape(blockShape(heldBlock(layout, shape, mesh, places[0]!)), factors)
  const builder = new GraphBuilder()
  const given = new Map<string, Tensor[]>()
  const blocks = operands.map((operand, input) => {
    const own = node.inputs[input]!
    const type = { dtype: own.dtype, shape: shapeOf(needed[input]!, own, node.factors.inputs[input]!) }
    const name = `x${input}`
    given.set(
      name,
      operand.blocks.map((data) => makeTensor(type, data)),
    )
    return builder.input(name, 'activation', type)
  })
  const startValue = (axes: readonly string[], step: number): number => {
    const type = { dtype: 'i32', shape: [] } as const
    const name = `start ${axes} ${step}`
    given.set(
      name,
      places.map((own) => makeTensor(type, [placeAlong(mesh, axes, own) * step])),
    )
    return builder.findInput(name) ?? builder.input(name, 'scalar', type)
  }
  const outputs = addLocalOp(builder, node, blocks, mesh, assignment, startValue)
  outputs.forEach((value, output) => {
    const own = node.outputs[output]!
    const expected = shapeOf(layouts[output]!, own, node.factors.outputs[output]!)
    const found = builder.type(value)
    if (found.dtype !== own.dtype || `${found.shape}` !== `${expected}`)
      throw new Error(`gives ${found.dtype}[${found.shape}] where [${expected}] is to be`)
    builder.output(`y${output}`, value)
  })
  const graph = builder.build({ keepInputs: true })
  const held: Tensor[][] = []
  for (const { name, value } of graph.inputs) held[value] = given.get(name)!
  runRanks(graph, mesh, held)
  const results = graph.outputs.map(({ value }) => held[value]!.map(({ data }) => data))
  return node.outputs.map((type, output) => ({
    shape: type.shape,
    mesh,
    layout: layouts[output]!,
    blocks: results[output]!,
  }))
}
