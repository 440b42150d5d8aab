import {
  GraphBuilder,
  interpretGraph,
  isFloat,
  makeTensor,
  ruleOf,
  type Tensor,
} from '../../src/graph/index.ts'
import {
  type Assignment,
  addLocalOp,
  blockShape,
  type CuttableOp,
  canCut,
  commutes,
  coordinatesAt,
  cuttableOp,
  heldBlock,
  indicesOf,
  inputLayouts,
  type Mesh,
  meshSize,
  outputLayouts,
  type PartialReduction,
  type TypedOp,
} from '../../src/layout/index.ts'
import type { Spread } from './layoutExecutor.ts'

export function inferredOp(node: Pick<TypedOp, 'op' | 'attributes' | 'inputs'>): CuttableOp {
  return cuttableOp({ ...node, outputs: ruleOf(node.op).infer(node.inputs, node.attributes) })
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
  const results = node.outputs.map((): Tensor['data'][] => [])
  for (let place = 0; place < meshSize(mesh); place++) {
    const own = coordinatesAt(mesh, place)
    const builder = new GraphBuilder()
    const tensors = new Map<string, Tensor>()
    const blocks = operands.map(({ blocks: held }, input) => {
      const shape = blockShape(heldBlock(needed[input]!, node.inputs[input]!.shape, mesh, own))
      const tensor = makeTensor({ dtype: node.inputs[input]!.dtype, shape }, held[place]!)
      tensors.set(`x${input}`, tensor)
      return builder.input(`x${input}`, 'activation', tensor.type)
    })
    const startValue = (index: string, first: number) => {
      const name = `start.${index}`
      tensors.set(name, makeTensor({ dtype: 'i32', shape: [] }, [first]))
      return builder.findInput(name) ?? builder.input(name, 'scalar', { dtype: 'i32', shape: [] })
    }
    const outputs = addLocalOp(builder, node, blocks, mesh, assignment, own, startValue)
    outputs.forEach((value, output) => {
      const expected = blockShape(heldBlock(layouts[output]!, node.outputs[output]!.shape, mesh, own))
      const found = builder.type(value)
      if (found.dtype !== node.outputs[output]!.dtype || `${found.shape}` !== `${expected}`)
        throw new Error(`gives ${found.dtype}[${found.shape}] where [${expected}] is to be`)
      builder.output(`y${output}`, value)
    })
    const made = interpretGraph(builder.build({ keepInputs: true }), tensors)
    node.outputs.forEach((_, output) => {
      results[output]!.push(made.get(`y${output}`)!.data)
    })
  }
  return node.outputs.map((type, output) => ({
    shape: type.shape,
    mesh,
    layout: layouts[output]!,
    blocks: results[output]!,
  }))
}
