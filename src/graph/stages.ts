import { MeshwrightError } from '../base/index.ts'
import { prune } from './builder.ts'
import type { Graph, GraphInput, GraphOutput, InputKind, Node, ValueId } from './types.ts'

/** What one pipeline stage computes of the forward. */
export interface StagePiece {
  readonly stage: number
  /**
   * Inputs: received values in order of `receives`, then the model's inputs that are used here, in the model's order.
   * Outputs: the model's outputs made here (`loss`), then the values sent. `blocks` holds only blocks of this stage.
   */
  readonly graph: Graph
  readonly receives: readonly { readonly name: string; readonly from: number }[]
  readonly sends: readonly { readonly name: string; readonly to: readonly number[] }[]
}

/**
 * Cuts a forward graph into one graph for each stage. `stageOfBlock[b]` is the stage of block b; stages count from 0.
 *
 * A value made in stage p and used in others leaves p as output `x<p>` (`x<p>.1`, `x<p>.2`, … when there are several)
 * and enters each of them as an `activation` of that name, however many stages lie between. Nodes that belong to no
 * block, and nodes that follow from constants, from parameters alone or from data alone, are cloned to wherever they are
 * used: sending their results would cost more than making them. A tied parameter becomes an input of every stage that
 * uses it.
 *
 * Throws `GRAPH_STAGE` when the cut does not fit the graph, a stage needs a value of a later one, or a stage has nothing
 * to do.
 */
export function splitStages(model: Graph, stageOfBlock: readonly number[]): StagePiece[] {
  const graph = prune(model, false)
  const stageCount = countStages(graph, stageOfBlock)
  const home = homeStages(graph, stageOfBlock)
  const producers = new Map<ValueId, Node>()
  for (const node of graph.nodes) for (const output of node.outputs) producers.set(output, node)

  const outputStage = (value: ValueId): number => home.get(value) ?? latestStage(value, producers, home)
  const members = Array.from({ length: stageCount }, () => new Set<Node>())
  const consumers = new Map<ValueId, Set<number>>()
  for (let stage = 0; stage < stageCount; stage++) {
    // From what the stage must make, back to values of other stages and to inputs.
    const wanted: ValueId[] = graph.outputs
      .map(({ value }) => value)
      .filter((value) => outputStage(value) === stage)
    for (const node of graph.nodes)
      if (node.outputs.some((output) => home.get(output) === stage)) wanted.push(...node.outputs)
    const seen = new Set<ValueId>()
    while (wanted.length > 0) {
      const value = wanted.pop()!
      const node = producers.get(value)
      if (node === undefined || seen.has(value)) continue
      seen.add(value)
      const from = home.get(value)
      if (from === undefined || from === stage) {
        members[stage]!.add(node)
        wanted.push(...node.inputs)
      } else {
        if (from > stage) throw backwardEdge(graph, node, value, from, stage)
        consumers.set(value, (consumers.get(value) ?? new Set()).add(stage))
      }
    }
  }

  const names = nameCrossings(graph, home, consumers)
  return members.map((nodes, stage) => {
    const received = [...names].filter(([value]) => consumers.get(value)!.has(stage))
    const sent = [...names].filter(([value]) => home.get(value) === stage)
    const inputs: GraphInput[] = [
      ...received.map(([value, name]) => ({ name, kind: 'activation' as InputKind, value })),
      ...graph.inputs,
    ]
    const outputs: GraphOutput[] = [
      ...graph.outputs.filter(({ value }) => outputStage(value) === stage),
      ...sent.map(([value, name]) => ({ name, value })),
    ]
    if (outputs.length === 0)
      throw new MeshwrightError('GRAPH_STAGE', `nothing needs the work of stage ${stage}`, {
        hint: 'give it a block that the loss depends on, or use fewer stages',
      })
    const own = graph.nodes.filter((node) => nodes.has(node))
    return {
      stage,
      graph: keepOwnBlocks(prune({ ...graph, inputs, nodes: own, outputs }, false), stageOfBlock, stage),
      receives: received.map(([value, name]) => ({ name, from: home.get(value)! })),
      sends: sent.map(([value, name]) => ({ name, to: [...consumers.get(value)!].sort((a, b) => a - b) })),
    }
  })
}

function countStages(graph: Graph, stageOfBlock: readonly number[]): number {
  if (stageOfBlock.length !== graph.blocks.length)
    throw new MeshwrightError(
      'GRAPH_STAGE',
      `${stageOfBlock.length} stages are given for ${graph.blocks.length} blocks`,
    )
  let count = 0
  stageOfBlock.forEach((stage, block) => {
    // A stage holds at least one block, so a larger number leaves a gap.
    if (!Number.isInteger(stage) || stage < 0 || stage >= graph.blocks.length)
      throw new MeshwrightError('GRAPH_STAGE', `block ${graph.blocks[block]} cannot be in stage ${stage}`)
    count = Math.max(count, stage + 1)
  })
  for (let stage = 0; stage < count; stage++)
    if (!stageOfBlock.includes(stage)) throw new MeshwrightError('GRAPH_STAGE', `stage ${stage} has no block`)
  return Math.max(count, 1)
}

/** The stage of each value that is made in one place only; values of cloned nodes and inputs are not among them. */
function homeStages(graph: Graph, stageOfBlock: readonly number[]): ReadonlyMap<ValueId, number> {
  const home = new Map<ValueId, number>()
  const sources = new Map<ValueId, number>()
  for (const { kind, value } of graph.inputs) sources.set(value, sourceOfKind[kind])
  for (const node of graph.nodes) {
    let source = 0
    for (const input of node.inputs) source |= sources.get(input)!
    const cloned = node.block < 0 || source === 0 || source === parameter || source === data
    for (const output of node.outputs) {
      sources.set(output, source)
      if (!cloned) home.set(output, stageOfBlock[node.block]!)
    }
  }
  return home
}

// What a value follows from, as bits.
const parameter = 1
const data = 2
const other = 4
const sourceOfKind: Readonly<Record<InputKind, number>> = {
  parameter,
  data,
  scalar: data,
  activation: other,
  cotangent: other,
  state: other,
}

/** The last of the stages that a value of a cloned node draws on. */
function latestStage(
  value: ValueId,
  producers: ReadonlyMap<ValueId, Node>,
  home: ReadonlyMap<ValueId, number>,
): number {
  let latest = 0
  const seen = new Set<ValueId>()
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()!
    if (seen.has(next)) continue
    seen.add(next)
    const stage = home.get(next)
    if (stage === undefined) open.push(...(producers.get(next)?.inputs ?? []))
    else latest = Math.max(latest, stage)
  }
  return latest
}

/** Names of the values that cross stages, in the order in which they are made. */
function nameCrossings(
  graph: Graph,
  home: ReadonlyMap<ValueId, number>,
  consumers: ReadonlyMap<ValueId, ReadonlySet<number>>,
): ReadonlyMap<ValueId, string> {
  const names = new Map<ValueId, string>()
  const counts = new Map<number, number>()
  for (const node of graph.nodes) {
    for (const value of node.outputs) {
      if (!consumers.has(value)) continue
      const stage = home.get(value)!
      const count = counts.get(stage) ?? 0
      counts.set(stage, count + 1)
      names.set(value, count === 0 ? `x${stage}` : `x${stage}.${count}`)
    }
  }
  return names
}

function keepOwnBlocks(graph: Graph, stageOfBlock: readonly number[], stage: number): Graph {
  const renumbered = new Map<number, number>()
  const blocks = graph.blocks.filter((_, block) => {
    if (stageOfBlock[block] !== stage) return false
    renumbered.set(block, renumbered.size)
    return true
  })
  const nodes = graph.nodes.map((node) => ({ ...node, block: renumbered.get(node.block) ?? -1 }))
  return { ...graph, nodes, blocks }
}

function backwardEdge(graph: Graph, node: Node, value: ValueId, from: number, to: number): MeshwrightError {
  const name = graph.values[value]!.name ?? `the result of ${node.op}`
  return new MeshwrightError(
    'GRAPH_STAGE',
    `stage ${to} needs ${name} of stage ${from} (block ${graph.blocks[node.block]}), which runs later`,
    { hint: 'put the blocks into stages in the order in which they use each other' },
  )
}
