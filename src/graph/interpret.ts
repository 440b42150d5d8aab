import { MeshwrightError } from '../base/index.ts'
import { ruleOf } from './ops/index.ts'
import { formatType, sameShape } from './tensor.ts'
import type { Graph, Node, Tensor, TensorType, ValueId } from './types.ts'

export type TensorsByName = Readonly<Record<string, Tensor>> | ReadonlyMap<string, Tensor>

/** One node that has been evaluated. */
export interface InterpretedNode {
  readonly node: Node
  /** Index into `graph.nodes`. */
  readonly index: number
  readonly outputs: readonly Tensor[]
}

/**
 * Evaluates a graph with the reference implementations: slow, obvious, one thread, reductions in index order. All
 * float arithmetic is in float64, also on values of type f32, which are not rounded: of an f32 graph this gives what
 * exact enough arithmetic would have given. Throws MeshwrightError `GRAPH_INPUT` for an input that is missing or of
 * another type, `GRAPH_ID_RANGE` for an id outside its table.
 */
export function interpretGraph(graph: Graph, inputs: TensorsByName): Map<string, Tensor> {
  const steps = interpretSteps(graph, inputs)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** As `interpretGraph`, but stops after every node to show its outputs. Returns the outputs of the graph. */
export function* interpretSteps(
  graph: Graph,
  inputs: TensorsByName,
): Generator<InterpretedNode, Map<string, Tensor>, undefined> {
  const values = new Array<Tensor | undefined>(graph.values.length)
  for (const { name, value } of graph.inputs) values[value] = inputOf(inputs, name, graph.values[value]!.type)
  const dead = lastUses(graph)
  for (const [index, node] of graph.nodes.entries()) {
    const outputs = ruleOf(node.op).reference(
      node.inputs.map((input) => values[input]!),
      node.attributes,
      node.outputs.map((output) => graph.values[output]!.type),
    )
    node.outputs.forEach((output, position) => {
      values[output] = outputs[position]!
    })
    yield { node, index, outputs }
    for (const value of dead[index]!) values[value] = undefined
  }
  return new Map(graph.outputs.map(({ name, value }) => [name, values[value]!]))
}

export interface NonFinite extends InterpretedNode {
  /** Which output, and which element of it. */
  readonly output: number
  readonly element: number
}

/**
 * The first node, in order of the graph, that yields an infinity or a NaN: where a training step went wrong. A value
 * of type f32 counts as infinite from where float32 overflows.
 */
export function findNonFinite(graph: Graph, inputs: TensorsByName): NonFinite | undefined {
  for (const step of interpretSteps(graph, inputs)) {
    for (const [output, tensor] of step.outputs.entries()) {
      const element = nonFiniteElement(tensor)
      if (element !== undefined) return { ...step, output, element }
    }
  }
  return undefined
}

/** Index of the first element that is not a finite number of its dtype. */
export function nonFiniteElement(tensor: Tensor): number | undefined {
  const narrow = tensor.type.dtype === 'f32'
  const found = tensor.data.findIndex((value) => !Number.isFinite(narrow ? Math.fround(value) : value))
  return found < 0 ? undefined : found
}

function inputOf(inputs: TensorsByName, name: string, type: TensorType): Tensor {
  const given = inputs instanceof Map ? inputs.get(name) : (inputs as Readonly<Record<string, Tensor>>)[name]
  if (given === undefined) throw new MeshwrightError('GRAPH_INPUT', `input ${name} is missing`)
  if (given.type.dtype !== type.dtype || !sameShape(given.type.shape, type.shape))
    throw new MeshwrightError(
      'GRAPH_INPUT',
      `input ${name} is ${formatType(given.type)}, the graph wants ${formatType(type)}`,
    )
  return given
}

/** For each node the values that nothing needs after it, so that a long graph does not keep all it has computed. */
function lastUses(graph: Graph): ValueId[][] {
  const last = new Map<ValueId, number>()
  for (const [index, node] of graph.nodes.entries())
    for (const value of [...node.outputs, ...node.inputs]) last.set(value, index)
  for (const { value } of graph.outputs) last.delete(value)
  const dead: ValueId[][] = graph.nodes.map(() => [])
  for (const [value, index] of last) dead[index]!.push(value)
  return dead
}
