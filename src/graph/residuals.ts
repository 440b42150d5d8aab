import { assertNever } from '../base/index.ts'
import { chooseBoundary, followingValues, isSeed, parameterValues } from './boundary.ts'
import { type RecomputeChoice, type RecomputeClass, recomputeClass } from './recompute.ts'
import { nodesBehind } from './slice.ts'
import type { StageDerivative } from './stageDerivative.ts'
import { byteSize } from './tensor.ts'
import type { Graph, InputKind, Node, ValueId } from './types.ts'

/**
 * What the backward takes of the forward: the fewest bytes from which it can be computed when ops of the classes `again`
 * may run in it once more; none that reads parameters, if `lending` says that a part of the backward has none. Inputs of
 * the graph are among them, and with `holdGathered` what was gathered.
 */
export function chooseResiduals(
  derivative: StageDerivative,
  again: ReadonlySet<RecomputeClass>,
  lending: (node: Node) => boolean,
  holdGathered: boolean = false,
): readonly ValueId[] {
  const { joint } = derivative
  const forwardValues = derivative.forwardOutputs.map((output) => output.value)
  const { nodes: late, values: lateValues } = followsFromCotangents(joint)
  const outputs = [...derivative.cotangentOutputs, ...derivative.gradientOutputs, ...derivative.standIns]
  const demanded = [...late].flatMap((node) => node.inputs).concat(outputs.map((output) => output.value))
  return chooseBoundary({
    graph: joint,
    candidates: new Set(joint.nodes.filter((node) => !late.has(node))),
    demanded: demanded.filter((value) => !lateValues.has(value)),
    repeatable: both(lending, repeatsByClass(joint, nodesBehind(joint, forwardValues), again, holdGathered)),
    price: priceIn(joint, new Set(forwardValues)),
    free: parameterValues(joint, holdGathered),
  })
}

/**
 * What the forward holds instead of `residuals` when `choice` lets more ops run a second time: the fewest bytes from
 * which those residuals follow. Each of them that is not held has to be made again before the backward. A cut once more,
 * behind the first: with nothing added to what may be repeated it would give the residuals themselves, for a set that
 * parts them from the inputs also parts what was demanded of them.
 */
export function chooseHeld(
  derivative: StageDerivative,
  again: ReadonlySet<RecomputeClass>,
  residuals: readonly ValueId[],
  choice: RecomputeChoice,
  holdGathered: boolean = false,
): readonly ValueId[] {
  if (choice.kind === 'none') return residuals
  const { joint } = derivative
  const forward = nodesBehind(
    joint,
    derivative.forwardOutputs.map((output) => output.value),
  )
  const byClass = repeatsByClass(joint, forward, again, holdGathered)
  const byChoice = repeatsByChoice(joint, forward, choice)
  return chooseBoundary({
    graph: joint,
    candidates: nodesBehind(joint, residuals),
    demanded: residuals,
    repeatable: (node) => byChoice(node) ?? byClass(node),
    // Anything but the residuals counts a little more, so that nothing runs twice to hold as much in another place.
    price: priceIn(joint, new Set(residuals)),
    free: parameterValues(joint, holdGathered),
  })
}

/** Whether a node of the graph reads no parameter, nor what follows from parameters. */
export function parameterFree(graph: Graph): (node: Node) => boolean {
  const ofParameters = parameterValues(graph)
  const constants = followingValues(graph, [])
  return (node) => !node.inputs.some((input) => ofParameters.has(input) && !constants.has(input))
}

export function both(a: (node: Node) => boolean, b: (node: Node) => boolean): (node: Node) => boolean {
  return (node) => a(node) && b(node)
}

function repeatsByClass(
  joint: Graph,
  forward: ReadonlySet<Node>,
  again: ReadonlySet<RecomputeClass>,
  holdGathered: boolean,
): (node: Node) => boolean {
  const isGather = ({ op, attributes }: Node): boolean =>
    op === 'communicate' && attributes.operation === 'allGather'
  // What only the backward needs may as well run there: that is not a second time.
  return (node) =>
    !forward.has(node) || again.has(recomputeClass(joint, node)) || (!holdGathered && isGather(node))
}

/** Whether a choice lets a node run a second time, or forbids it; undefined where it leaves that to the node's class. */
function repeatsByChoice(
  joint: Graph,
  forward: ReadonlySet<Node>,
  choice: Exclude<RecomputeChoice, { readonly kind: 'none' }>,
): (node: Node) => boolean | undefined {
  switch (choice.kind) {
    case 'attention':
      return (node) => (recomputeClass(joint, node) === 'attention' || isPermute(node) ? true : undefined)
    case 'full': {
      const { blocks } = choice
      const isChosen = typeof blocks === 'function' ? blocks : (name: string) => blocks.has(name)
      const chosen = joint.blocks.map(isChosen)
      const crossing = crossingValues(joint, forward)
      return (node) => {
        if (node.outputs.some((output) => crossing.has(output))) return false
        return chosen[node.block] === true ? true : undefined
      }
    }
    default:
      return assertNever(choice)
  }
}

function isPermute(node: Node): boolean {
  return node.op === 'communicate' && node.attributes.operation === 'permute'
}

/** Values of one block that nodes outside it use, but for what follows from data alone and can be had anywhere. */
function crossingValues(joint: Graph, forward: ReadonlySet<Node>): ReadonlySet<ValueId> {
  const blockOf = new Map<ValueId, number>()
  for (const node of forward)
    if (node.block >= 0) for (const output of node.outputs) blockOf.set(output, node.block)
  const ofData = followingValues(joint, ['data', 'scalar'])
  const crossing = new Set<ValueId>()
  for (const node of forward)
    for (const input of node.inputs) {
      const block = blockOf.get(input)
      if (block === undefined || block === node.block || ofData.has(input)) continue
      crossing.add(input)
    }
  return crossing
}

/** What cannot be computed before the cotangents are there. */
export function followsFromCotangents(joint: Graph): {
  readonly nodes: ReadonlySet<Node>
  readonly values: ReadonlySet<ValueId>
} {
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

/**
 * Bytes; one more for a value that would have to be copied out of a task, so that among equals what lies there anyway
 * is held. Data comes with the batch and stays on every rank, so it costs next to nothing.
 */
export function priceIn(graph: Graph, outputs: ReadonlySet<ValueId>): (value: ValueId) => number {
  const kinds = new Map<ValueId, InputKind>(graph.inputs.map((input) => [input.value, input.kind]))
  return (value) => {
    const bytes = byteSize(graph.values[value]!.type)
    const kind = kinds.get(value)
    if (kind === 'data' || kind === 'scalar') return 1
    return kind !== undefined || outputs.has(value) ? bytes : bytes + 1
  }
}
