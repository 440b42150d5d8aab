import { chooseBoundary, parameterValues } from './boundary.ts'
import { defaultRecompute, type RecomputeClass, recomputeClass } from './recompute.ts'
import { nodesBehind, sliceGraph } from './slice.ts'
import { differentiatePiece, type ParameterGradient, type StageDerivative } from './stageDerivative.ts'
import type { StagePiece } from './stages.ts'
import { byteSize } from './tensor.ts'
import type { Graph, GraphInput, GraphOutput, InputKind, Node, ValueId } from './types.ts'

export interface TaskOptions {
  /** Classes of ops that the backward may run again instead of holding their results. */
  readonly recompute?: readonly RecomputeClass[]
}

/**
 * The graphs of one stage's phases. They share names: an input of B, I or W is an input or output of F of that name, or
 * a cotangent `d.<sent value>`, or `lossScale` (shape [], d loss / d loss), or for W also an output of I of that name.
 *
 * - F: the piece's outputs, then residuals `r0`, `r1`, …
 * - B: `d.<received value>` for each float value received, then the gradients
 * - I: the part of B behind the cotangents of received values (of what the first block passes on, where the stage
 *   receives none), then boundary values `k0`, `k1`, …
 * - W: the gradients, from residuals and from what I exported; with an empty I it equals B
 * - FB: F and B in one, without residuals: outputs of F that are not sent, then those of B
 */
export interface StageTasks {
  readonly stage: number
  readonly F: Graph
  readonly B: Graph
  readonly I: Graph
  readonly W: Graph
  readonly FB: Graph
  /** Where B, W and FB put the gradient of each parameter: at most one dense part, any number of rows. */
  readonly gradients: readonly ParameterGradient[]
  /** Outputs of F that the backward takes: `r<k>`, and values sent (`x<stage>`) if the backward needs those. */
  readonly residuals: readonly string[]
  /** Activations received that the backward takes as well. */
  readonly keptInputs: readonly string[]
  /** Outputs of I that W takes. */
  readonly exported: readonly string[]
}

/**
 * Makes the forward and backward tasks of a stage. Residuals are the fewest bytes from which the backward can be
 * computed when ops of the given classes may run again; they never hold parameters or what follows from parameters
 * alone. The boundary between I and W is chosen in the same way.
 */
export function differentiateStage(piece: StagePiece, options: TaskOptions = {}): StageTasks {
  const derivative = differentiatePiece(piece)
  const { joint } = derivative
  const again = new Set(options.recompute ?? defaultRecompute)

  const held = chooseResiduals(derivative, again)
  const residuals = nameBoundary(held, derivative.forwardOutputs, 'r')
  const backward = sliceGraph(
    joint,
    [...joint.inputs, ...residuals],
    [...derivative.cotangentOutputs, ...derivative.gradientOutputs, ...derivative.standIns],
  )
  const made = derivative.forwardOutputs.map((output) => output.name)
  const F = sliceGraph(joint, joint.inputs, [
    ...derivative.forwardOutputs,
    ...residuals.filter(({ name }) => !made.includes(name)).map(({ name, value }) => ({ name, value })),
  ])
  const { B, I, W, exported } = splitBackward(backward, derivative, again)
  const unsent = derivative.forwardOutputs.filter(
    ({ name }) => !piece.sends.some((sent) => sent.name === name),
  )
  const FB = sliceGraph(joint, joint.inputs, [
    ...unsent,
    ...derivative.cotangentOutputs,
    ...derivative.gradientOutputs,
  ])

  const taken = new Set(B.inputs.map((input) => input.name))
  return {
    stage: piece.stage,
    F,
    B,
    I,
    W,
    FB,
    gradients: derivative.gradients,
    residuals: residuals.map(({ name }) => name),
    keptInputs: piece.receives.map(({ name }) => name).filter((name) => taken.has(name)),
    exported,
  }
}

function chooseResiduals(derivative: StageDerivative, again: ReadonlySet<RecomputeClass>): ValueId[] {
  const { joint } = derivative
  const forwardValues = derivative.forwardOutputs.map((output) => output.value)
  const forward = nodesBehind(joint, forwardValues)
  const { nodes: late, values: lateValues } = followsFromCotangents(joint)
  const outputs = [...derivative.cotangentOutputs, ...derivative.gradientOutputs, ...derivative.standIns]
  const demanded = [...late].flatMap((node) => node.inputs).concat(outputs.map((output) => output.value))
  const sent = new Set(forwardValues)
  return chooseBoundary({
    graph: joint,
    candidates: new Set(joint.nodes.filter((node) => !late.has(node))),
    demanded: demanded.filter((value) => !lateValues.has(value)),
    // What only the backward needs may as well run there: that is not a second time.
    repeatable: (node) => !forward.has(node) || again.has(recomputeClass(joint, node)),
    price: priceIn(joint, sent),
    free: parameterValues(joint),
  }).filter((value) => !joint.inputs.some((input) => input.value === value))
}

/** What cannot be computed before the cotangents are there. */
function followsFromCotangents(joint: Graph): { nodes: ReadonlySet<Node>; values: ReadonlySet<ValueId> } {
  const values = new Set<ValueId>()
  for (const input of joint.inputs) if (isSeed(input)) values.add(input.value)
  const nodes = new Set<Node>()
  for (const node of joint.nodes) {
    if (!node.inputs.some((input) => values.has(input))) continue
    nodes.add(node)
    for (const output of node.outputs) values.add(output)
  }
  return { nodes, values }
}

function isSeed(input: GraphInput): boolean {
  return input.kind === 'cotangent' || input.name === 'lossScale'
}

/** Cuts the backward into the part that other stages wait for and the rest. */
function splitBackward(
  backward: Graph,
  derivative: StageDerivative,
  again: ReadonlySet<RecomputeClass>,
): Pick<StageTasks, 'B' | 'I' | 'W' | 'exported'> {
  const outputOf = new Map(backward.outputs.map((output) => [output.name, output]))
  const find = (outputs: readonly GraphOutput[]): GraphOutput[] =>
    outputs.map(({ name }) => outputOf.get(name)!)
  const cotangents = find(derivative.cotangentOutputs)
  const gradients = find(derivative.gradientOutputs)
  const B = sliceGraph(backward, backward.inputs, [...cotangents, ...gradients])

  const seeds = cotangents.length > 0 ? cotangents : find(derivative.standIns)
  const early = nodesBehind(
    backward,
    seeds.map((output) => output.value),
  )
  const gradientValues = gradients.map((output) => output.value)
  const late = [...nodesBehind(backward, gradientValues)].filter((node) => !early.has(node))
  const lateValues = new Set(late.flatMap((node) => node.outputs))
  const chain = followsFromCotangents(backward)
  const demanded = new Set(
    late
      .flatMap((node) => node.inputs)
      .concat(gradientValues)
      .filter((value) => !lateValues.has(value)),
  )
  const held = chooseBoundary({
    graph: backward,
    candidates: early,
    demanded,
    // Of the chain of cotangents W repeats nothing but moves of elements, and single steps from cotangents that it takes
    // anyway: the product of a norm's cotangent and its normalized operand.
    repeatable: (node) => {
      const found = recomputeClass(backward, node)
      const isStep = node.inputs.every((input) => !chain.values.has(input) || demanded.has(input))
      return again.has(found) && (found === 'movement' || isStep)
    },
    price: priceIn(backward, new Set()),
    free: parameterValues(backward),
  }).filter((value) => !backward.inputs.some((input) => input.value === value))
  const boundary = nameBoundary(held, cotangents, 'k')
  const exports = boundary
    .filter(({ name }) => !outputOf.has(name))
    .map(({ name, value }) => ({ name, value }))
  return {
    B,
    I: sliceGraph(backward, backward.inputs, [...cotangents, ...exports]),
    W: sliceGraph(backward, [...backward.inputs, ...boundary], gradients),
    exported: boundary.map(({ name }) => name),
  }
}

/**
 * Bytes; one more for a value that would have to be copied out of a task, so that among equals what lies there anyway
 * is held. Data comes with the batch and stays on every rank, so it costs next to nothing.
 */
function priceIn(graph: Graph, outputs: ReadonlySet<ValueId>): (value: ValueId) => number {
  const kinds = new Map<ValueId, InputKind>(graph.inputs.map((input) => [input.value, input.kind]))
  return (value) => {
    const bytes = byteSize(graph.values[value]!.type)
    const kind = kinds.get(value)
    if (kind === 'data' || kind === 'scalar') return 1
    return kind !== undefined || outputs.has(value) ? bytes : bytes + 1
  }
}

/** Held values as inputs of the later task: under the name by which the earlier task gives them anyway, or a new one. */
function nameBoundary(
  held: readonly ValueId[],
  outputs: readonly GraphOutput[],
  prefix: string,
): GraphInput[] {
  let count = 0
  return held.map((value) => {
    const known = outputs.find((output) => output.value === value)
    return { name: known?.name ?? `${prefix}${count++}`, kind: 'activation', value }
  })
}
