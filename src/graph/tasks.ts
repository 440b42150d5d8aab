import { chooseBoundary, parameterValues } from './boundary.ts'
import { prune } from './builder.ts'
import { defaultRecompute, type RecomputeChoice, type RecomputeClass, recomputeClass } from './recompute.ts'
import {
  both,
  chooseHeld,
  chooseResiduals,
  followsFromCotangents,
  parameterFree,
  priceIn,
} from './residuals.ts'
import { nodesBehind, sliceGraph } from './slice.ts'
import { differentiatePiece, type ParameterGradient, type StageDerivative } from './stageDerivative.ts'
import type { StagePiece } from './stages.ts'
import type { Graph, GraphInput, GraphOutput, Node, Value, ValueId } from './types.ts'

export interface TaskOptions {
  /** Classes of ops that the backward may run again instead of holding their results. */
  readonly recompute?: readonly RecomputeClass[]
  /** What a task R computes again before the backward; nothing where left out. */
  readonly recomputation?: RecomputeChoice
  /**
   * False: W reads no parameters, for engines that do not have them at hand by then; the forward holds, and I exports, a
   * little more. Default true.
   */
  readonly weightsTakeParameters?: boolean
  /**
   * What the forward gathers, of parameters or activations, is held for the backward like any other value. Default false:
   * it is gathered again, so that a rank keeps no more of it than its share.
   */
  readonly holdGathered?: boolean
  /** Values of the derivative that the backward does not make again: where it takes them, they are held. */
  readonly kept?: readonly ValueId[]
}

/** What tasks must know of a stage's place among others. */
export type StageCrossings = Pick<StagePiece, 'stage' | 'sends' | 'receives'>

/**
 * The graphs of one stage's phases. They share names: an input of B, I or W is an input or output of F or R of that
 * name, or a cotangent `d.<sent value>`, or `lossScale` (shape [], d loss / d loss), or for W also an output of I of
 * that name. An input of R is an input or output of F of that name.
 *
 * - F: the piece's outputs, then what is held of the rest: residuals `r0`, `r1`, …, and values `h0`, `h1`, … that only R
 *   takes
 * - R: the residuals that are not held, from those that are, from `h0`, `h1`, … and from inputs of F. It runs nodes of F
 *   a second time, so where the result of an op depends on the op alone, recomputation changes no bit
 * - B: `d.<received value>` for each float value received, then the gradients
 * - I: the part of B behind the cotangents of received values (of what the first block passes on, where the stage
 *   receives none), then boundary values `k0`, `k1`, …
 * - W: the gradients, from residuals and from what I exported; with an empty I it equals B
 * - FB: F and B in one, without residuals: outputs of F that are not sent, then those of B. Where ranks communicate it is
 *   cut into pieces all the same, so B then repeats what it repeats alone, and no more crosses than residuals
 */
export interface StageTasks {
  readonly stage: number
  readonly F: Graph
  /** Undefined where nothing is recomputed, be it that holding it costs no more. */
  readonly R?: Graph
  readonly B: Graph
  readonly I: Graph
  readonly W: Graph
  readonly FB: Graph
  /** Where B, W and FB put the gradient of each parameter: at most one dense part, any number of rows. */
  readonly gradients: readonly ParameterGradient[]
  /**
   * What the backward takes, outputs of F or R: `r<k>`, and values sent (`x<stage>`) if the backward needs those. They
   * are the same, and so are B, I, W and FB, whatever is recomputed.
   */
  readonly residuals: readonly string[]
  /** Outputs of F that R or the backward takes; without R the residuals. */
  readonly held: readonly string[]
  /** Outputs of R: the residuals that are not held. One may be a value sent, which F gives too but need not keep. */
  readonly recomputed: readonly string[]
  /** Activations received that the backward or R takes as well. */
  readonly keptInputs: readonly string[]
  /** Outputs of I that W takes. */
  readonly exported: readonly string[]
}

/**
 * Makes the forward and backward tasks of a stage. Residuals are the fewest bytes from which the backward can be
 * computed when ops of the given classes may run again; they never hold parameters or what follows from parameters
 * alone. The boundary between I and W is chosen in the same way, and so is what F holds for R under the given choice of
 * recomputation (selective and full recomputation as in Korthikanti et al. 2022, section 5; full by block as in Chen et
 * al. 2016).
 */
export function differentiateStage(piece: StagePiece, options: TaskOptions = {}): StageTasks {
  return stageTasks(piece, differentiatePiece(piece), options)
}

/** The same of a derivative that is there: of the stage as it is, or of what one rank does of it. */
export function stageTasks(
  piece: StageCrossings,
  derivative: StageDerivative,
  options: TaskOptions = {},
): StageTasks {
  const { joint, forwardOutputs } = derivative
  const again = new Set(options.recompute ?? defaultRecompute)
  const isMade = (value: ValueId): boolean => !joint.inputs.some((input) => input.value === value)

  const lends = (graph: Graph): ((node: Node) => boolean) =>
    options.weightsTakeParameters === false ? parameterFree(graph) : () => true
  const holdGathered = options.holdGathered === true
  const kept = new Set(options.kept ?? [])
  const isFree = both(lends(joint), ({ outputs }) => !outputs.some((output) => kept.has(output)))
  const taken = chooseResiduals(derivative, again, isFree, holdGathered)
  const residuals = nameBoundary(taken.filter(isMade), forwardOutputs, 'r')
  const heldValues = chooseHeld(
    derivative,
    again,
    taken,
    options.recomputation ?? { kind: 'none' },
    holdGathered,
  )
  const held = nameBoundary(heldValues.filter(isMade), [...forwardOutputs, ...residuals], 'h')
  const recomputed = residuals.filter(({ value }) => !heldValues.includes(value))

  const backward = sliceGraph(
    joint,
    [...joint.inputs, ...residuals],
    [...derivative.cotangentOutputs, ...derivative.gradientOutputs, ...derivative.standIns],
  )
  const F = sliceGraph(joint, joint.inputs, [
    ...forwardOutputs,
    ...asOutputs(held.filter(({ name }) => !forwardOutputs.some((output) => output.name === name))),
  ])
  const R = sliceGraph(joint, [...joint.inputs, ...held], asOutputs(recomputed))
  const { B, I, W, exported } = splitBackward(backward, derivative, again, lends(backward))
  const unsent = forwardOutputs.filter(({ name }) => !piece.sends.some((sent) => sent.name === name))
  const FB = joint.nodes.some(({ op }) => op === 'communicate')
    ? followedBy(
        sliceGraph(joint, joint.inputs, [
          ...unsent,
          ...asOutputs(residuals.filter(({ name }) => !unsent.some((output) => output.name === name))),
        ]),
        unsent.map(({ name }) => name),
        B,
      )
    : sliceGraph(joint, joint.inputs, [
        ...unsent,
        ...derivative.cotangentOutputs,
        ...derivative.gradientOutputs,
      ])

  const takenLater = new Set([...B.inputs, ...R.inputs].map((input) => input.name))
  return {
    stage: piece.stage,
    F,
    ...(recomputed.length > 0 ? { R } : {}),
    B,
    I,
    W,
    FB,
    gradients: derivative.gradients,
    residuals: residuals.map(({ name }) => name),
    held: held.map(({ name }) => name),
    recomputed: recomputed.map(({ name }) => name),
    keptInputs: piece.receives.map(({ name }) => name).filter((name) => takenLater.has(name)),
    exported,
  }
}

/** Cuts the backward into the part that other stages wait for and the rest. */
function splitBackward(
  backward: Graph,
  derivative: StageDerivative,
  again: ReadonlySet<RecomputeClass>,
  lending: (node: Node) => boolean,
): Pick<StageTasks, 'B' | 'I' | 'W' | 'exported'> {
  const outputOf = new Map(backward.outputs.map((output) => [output.name, output]))
  const find = (outputs: readonly GraphOutput[]): GraphOutput[] =>
    outputs.map(({ name }) => outputOf.get(name)!)
  const cotangents = find(derivative.cotangentOutputs)
  const gradients = find(derivative.gradientOutputs)
  const B = sliceGraph(backward, backward.inputs, [...cotangents, ...gradients])

  const seeds = cotangents.length > 0 ? cotangents : find(derivative.standIns)
  const early = withSums(
    backward,
    nodesBehind(
      backward,
      seeds.map((output) => output.value),
    ),
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
      return lending(node) && again.has(found) && (found === 'movement' || isStep)
    },
    price: priceIn(backward, new Set()),
    free: parameterValues(backward),
  }).filter((value) => !backward.inputs.some((input) => input.value === value))
  const boundary = nameBoundary(held, cotangents, 'k')
  const exports = asOutputs(boundary.filter(({ name }) => !outputOf.has(name)))
  return {
    B,
    I: sliceGraph(backward, backward.inputs, [...cotangents, ...exports]),
    W: sliceGraph(backward, [...backward.inputs, ...boundary], gradients),
    exported: boundary.map(({ name }) => name),
  }
}

/** Two tasks in turn as one: inputs of the second are outputs or inputs of the first by name, or its own. */
function followedBy(first: Graph, kept: readonly string[], second: Graph): Graph {
  const values: Value[] = [...first.values]
  const inputs: GraphInput[] = [...first.inputs]
  const known = new Map([...first.inputs, ...first.outputs].map(({ name, value }) => [name, value]))
  const ids = new Map<ValueId, ValueId>()
  const idOf = (value: ValueId): ValueId => {
    const found = ids.get(value) ?? values.push(second.values[value]!) - 1
    ids.set(value, found)
    return found
  }
  for (const input of second.inputs) {
    const found = known.get(input.name)
    if (found === undefined) inputs.push({ ...input, value: idOf(input.value) })
    else ids.set(input.value, found)
  }
  const nodes = second.nodes.map(
    (node): Node => ({ ...node, inputs: node.inputs.map(idOf), outputs: node.outputs.map(idOf) }),
  )
  const outputs = [
    ...first.outputs.filter(({ name }) => kept.includes(name)),
    ...second.outputs.map((output): GraphOutput => ({ ...output, value: idOf(output.value) })),
  ]
  return prune({ values, inputs, nodes: [...first.nodes, ...nodes], outputs, blocks: first.blocks }, false)
}

/**
 * The nodes, and sums over ranks of what they make, though only others need them: terms of a sum do not go from task to
 * task, where nothing says of what they are terms.
 */
function withSums(graph: Graph, nodes: ReadonlySet<Node>): ReadonlySet<Node> {
  const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((output) => [output, node] as const)))
  const all = new Set(nodes)
  for (const node of graph.nodes) {
    if (node.op !== 'communicate' || node.attributes.reduce === null || all.has(node)) continue
    const chain: Node[] = [node]
    let maker = makers.get(node.inputs[0]!)
    while (maker !== undefined && !all.has(maker) && recomputeClass(graph, maker) === 'movement') {
      chain.push(maker)
      maker = makers.get(maker.inputs[0]!)
    }
    if (maker !== undefined && nodes.has(maker)) for (const own of chain) all.add(own)
  }
  return all
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

function asOutputs(values: readonly GraphInput[]): GraphOutput[] {
  return values.map(({ name, value }) => ({ name, value }))
}
