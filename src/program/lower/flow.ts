import { type Graph, type Node, repeatedValues, type ValueId } from '../../graph/index.ts'
import { ChunkLevels } from './chunkLevels.ts'

export type Communicate = Extract<Node, { op: 'communicate' }>

/** How values of one rank's graph of a phase follow from each other, as far as it matters where the graph is cut. */
export interface Flow {
  readonly graph: Graph
  /** By value: the node that makes it; undefined for inputs. */
  readonly maker: readonly (Node | undefined)[]
  /**
   * By value: the one whose elements it has, in the same order. Values of one root are one thing in memory, so reshapes
   * are done wherever they are needed.
   */
  readonly root: readonly ValueId[]
  /** Made again wherever it is needed: see `repeatedValues`. */
  readonly free: ReadonlySet<ValueId>
  /**
   * By value: how many communications at most lie before it, one after the other; more where chunks take turns
   * (`ChunkLevels`).
   */
  readonly level: readonly number[]
  /** Nodes that belong in one piece each: none that reshape, communicate or make what is free. In order. */
  readonly placed: readonly Node[]
  readonly communications: readonly Communicate[]
  /** Places of nodes in the graph. */
  readonly order: ReadonlyMap<Node, number>
  /** Levels from 0 up to this one. */
  readonly lastLevel: number
  readonly chunkLevels: ChunkLevels
}

export function flowOf(graph: Graph): Flow {
  const free = repeatedValues(graph)
  const count = graph.values.length
  const maker = new Array<Node | undefined>(count).fill(undefined)
  const root = Array.from({ length: count }, (_, value) => value)
  const level = new Array<number>(count).fill(0)
  const placed: Node[] = []
  const communications: Communicate[] = []
  const chunkLevels = new ChunkLevels(graph)
  for (const node of graph.nodes) {
    const [first] = node.inputs
    const before = node.inputs.reduce((most, input) => Math.max(most, level[input]!), 0)
    const own = chunkLevels.atLeast(node, node.op === 'communicate' ? before + 1 : before)
    for (const output of node.outputs) {
      maker[output] = node
      level[output] = own
    }
    if (node.op === 'communicate') communications.push(node)
    else if (node.outputs.every((output) => free.has(output))) continue
    else if (node.op === 'reshape') root[node.outputs[0]!] = root[first!]!
    else placed.push(node)
  }
  const lastLevel = level.reduce((most, own) => Math.max(most, own), 0)
  const order = new Map(graph.nodes.map((node, index) => [node, index]))
  return { graph, maker, root, free, level, placed, communications, order, lastLevel, chunkLevels }
}

export function communicates(graph: Graph): boolean {
  return graph.nodes.some(({ op }) => op === 'communicate')
}
