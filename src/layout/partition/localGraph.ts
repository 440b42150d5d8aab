import { byteSize, type Graph, GraphBuilder, type ValueId } from '../../graph/index.ts'
import { factorGraph } from '../factors/factorGraph.ts'
import { checkMesh, meshSize } from '../mesh.ts'
import { rememberedPlans } from '../rules/choose.ts'
import { decomposeNodes } from '../rules/decompose.ts'
import { addLocalOp, localShape, mergedShape } from '../rules/local.ts'
import type { Mesh } from '../types.ts'
import { ringTotal } from '../wire.ts'
import { type AssignedGraph, assignLayouts, type OutputWants } from './assign.ts'
import { addStep } from './communication.ts'
import { addPanels } from './panels.ts'
import { RankScalars } from './rankScalars.ts'
import type { LocalGraph, PlacedType, PlacedValue, Wants } from './types.ts'
import { checkedWants } from './wanted.ts'

/** Ops that have a form in smaller ops which can be cut along their last dim. */
const decomposable: readonly string[] = ['softmax', 'layerNorm', 'rmsNorm', 'crossEntropy']

export interface LocalGraphOptions {
  readonly outputWants?: OutputWants
  /** Outputs that lie as inputs do, by the name of the input (`factorGraph`). */
  readonly alike?: ReadonlyMap<string, string>
}

/**
 * How the ranks of a mesh compute a graph together (forward, backward or both), as the graph that each of them runs: every
 * value gets a layout, every op a way to be cut, and between them values are redistributed, each to each layout at most
 * once. Layouts that are wanted are held to; the others are chosen so that each op in turn moves the fewest bytes. Ops over
 * a dim that is cut are computed in smaller ops rather than gathered. All cuts are even. Deterministic. Throws the errors of
 * `checkMesh`, `checkLayout` and `checkEven` for a mesh and for wants that do not fit, `LAYOUT_VARYING` where values that
 * vary are wanted whole.
 */
export function localGraph(
  graph: Graph,
  mesh: Mesh,
  wants: Wants,
  { outputWants, alike }: LocalGraphOptions = {},
): LocalGraph {
  checkMesh(mesh)
  const checked = checkedWants(wants, mesh)
  let cut = graph
  // Layers are alike.
  const plansOf = rememberedPlans()
  let assigned = assignLayouts(cut, factorGraph(cut, alike), mesh, checked, outputWants, plansOf)
  for (;;) {
    const { wholeLast } = assigned
    const current = cut
    const wanted = (node: number): boolean =>
      wholeLast.has(node) && decomposable.includes(current.nodes[node]!.op)
    if (![...wholeLast].some(wanted)) break
    cut = decomposeNodes(current, wanted)
    assigned = assignLayouts(cut, factorGraph(cut, alike), mesh, checked, outputWants, plansOf)
  }
  return addLocal(cut, mesh, assigned)
}

function addLocal(graph: Graph, mesh: Mesh, { items, values, outputs, kept }: AssignedGraph): LocalGraph {
  const builder = new GraphBuilder()
  const scalars = new RankScalars(builder)
  for (const block of graph.blocks) builder.startBlock(block)
  const made = new Map<string, ValueId>()
  const inputs = new Map<string, PlacedType>()
  for (const { name, kind, value } of graph.inputs) {
    const placed = values.get(name)!
    const { dtype, axes } = graph.values[value]!.type
    const shape = blockShapeOf(placed, mesh)
    made.set(name, builder.input(name, kind, { dtype, shape, ...(axes === undefined ? {} : { axes }) }))
    inputs.set(name, placedType(placed))
  }
  for (const [occasion, item] of items.entries()) {
    builder.setBlock(item.block)
    if (item.kind === 'compute') {
      const { op, assignment, results, panels } = item
      const operands = item.operands.map((name) => made.get(name)!)
      const { start } = scalars
      const own =
        panels === undefined
          ? addLocalOp(builder, op, operands, mesh, assignment, start)
          : [addPanels({ builder, mesh, start, occasion }, op, operands, assignment, panels)]
      results.forEach((name, at) => {
        made.set(name, own[at]!)
      })
    } else {
      const { redistribution, from, to } = item
      const { factors } = values.get(to)!
      let value = made.get(from)!
      for (const step of redistribution.steps)
        value = addStep({ builder, scalars, mesh, factors, shape: redistribution.type.shape }, step, value)
      made.set(to, value)
    }
  }
  const placed = new Map<string, PlacedType>()
  for (const { name, value } of outputs) {
    builder.output(name, made.get(value)!)
    placed.set(name, placedType(values.get(value)!))
  }
  const keptNames = [...kept].map((name, index) => {
    builder.output(`kept ${index}`, made.get(name)!)
    return `kept ${index}`
  })
  // Inputs that nothing uses stay: they are the graph's, and its ranks are given them.
  const local = builder.build({ keepInputs: true })
  const wireBytes = communicatedBytes(local, mesh)
  return {
    graph: local,
    scalars: scalars.used,
    inputs,
    outputs: placed,
    kept: keptNames,
    wireBytes,
  }
}

function placedType({ type, factors, layout }: PlacedValue): PlacedType {
  return { type, factors, layout }
}

/** What the communication of a local graph puts on the wire, of all ranks together. */
export function communicatedBytes({ nodes, values }: Graph, mesh: Mesh): number {
  let bytes = 0
  for (const node of nodes) {
    if (node.op !== 'communicate') continue
    const { operation, members } = node.attributes
    const value = operation === 'allGather' ? node.outputs[0]! : node.inputs[0]!
    bytes += (ringTotal(operation, byteSize(values[value]!.type), members) * meshSize(mesh)) / members
  }
  return bytes
}

/** Sizes of the dims of a rank's block. */
export function blockShapeOf(
  { layout, type, factors }: Pick<PlacedValue, 'layout' | 'type' | 'factors'>,
  mesh: Mesh,
): number[] {
  return mergedShape(localShape(layout, type.shape, mesh), factors)
}
