import type { Graph } from '../../graph/index.ts'
import { checkMesh } from '../mesh.ts'
import { decomposeNodes } from '../rules/decompose.ts'
import type { Mesh } from '../types.ts'
import { assignLayouts } from './assign.ts'
import { cutPieces } from './pieces.ts'
import type { Partition, Wants } from './types.ts'
import { checkedWants } from './wanted.ts'

/** Ops that have a form in smaller ops which can be cut along their last dim. */
const decomposable: readonly string[] = ['softmax', 'layerNorm', 'rmsNorm', 'crossEntropy']

/**
 * How the ranks of a mesh compute a graph together (forward, backward or both): every value gets a layout, every op a way
 * to be cut, and between pieces of local computation values are redistributed, each to each layout at most once. Layouts
 * that are wanted are held to; the others are chosen so that each op in turn moves the fewest bytes. Ops over a dim that
 * is cut are computed in smaller ops rather than gathered. Deterministic. Throws the errors of `checkMesh` and
 * `checkLayout` for a mesh and for wants that do not fit, `LAYOUT_VARYING` where values that vary are wanted whole.
 */
export function partitionGraph(graph: Graph, mesh: Mesh, wants: Wants): Partition {
  checkMesh(mesh)
  let cut = graph
  const checked = checkedWants(wants, mesh)
  let assigned = assignLayouts(cut, mesh, checked)
  for (;;) {
    const { wholeLast } = assigned
    const current = cut
    const wanted = (node: number): boolean =>
      wholeLast.has(node) && decomposable.includes(current.nodes[node]!.op)
    if (![...wholeLast].some(wanted)) break
    cut = decomposeNodes(current, wanted)
    assigned = assignLayouts(cut, mesh, checked)
  }
  const steps = cutPieces(cut, mesh, assigned)
  return {
    mesh,
    steps,
    values: assigned.values,
    inputs: cut.inputs.map(({ name }) => name),
    outputs: assigned.outputs,
    wireBytes: steps.reduce(
      (sum, step) => (step.kind === 'compute' ? sum : sum + step.redistribution.wireBytes),
      0,
    ),
  }
}
