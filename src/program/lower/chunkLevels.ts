import type { Graph, Node, OpAttributes, ValueId } from '../../graph/index.ts'

/**
 * Chunks of one collective take turns (`communicate`, attribute `chunk`): each has a level of its own, one after the other, so
 * that pieces between them can run while a chunk is under way. What only a later chunk that is reduced needs, such as
 * its product, waits for its turn; what is gathered is there from the beginning, and its products take turns as they come.
 */
export class ChunkLevels {
  private readonly turns: ReadonlyMap<Node, Turn>
  /** By occasion, of the chunk that came last: the level of its result, less its place. */
  private readonly firsts = new Map<number, number>()
  /** By level of the operand of a chunk that is reduced and not the last: that of the last. */
  private readonly lasts = new Map<number, number>()

  constructor(graph: Graph) {
    this.turns = turnsOf(graph)
  }

  /** The level of what a node makes, which follows from its operands at that level; nodes are asked for in order. */
  atLeast(node: Node, level: number): number {
    if (node.op !== 'communicate') {
      const turn = this.turns.get(node)
      const first = turn && this.firsts.get(turn.occasion)
      return first === undefined ? level : Math.max(level, first - 1 + turn!.chunk)
    }
    const { operation, occasion, chunk } = node.attributes
    if (occasion === undefined || chunk === undefined) return level
    const first = chunk === 0 ? undefined : this.firsts.get(occasion)
    const own = first === undefined ? level : Math.max(level, first + chunk)
    this.firsts.set(occasion, own - chunk)
    if (operation !== 'allGather')
      for (let before = own - chunk - 1; before < own - 1; before++)
        this.lasts.set(before, Math.max(this.lasts.get(before) ?? 0, own - 1))
    return own
  }

  /** The level of the operand of the last of chunks that are reduced, where that of one of them is at a level. */
  last(level: number): number {
    return this.lasts.get(level) ?? level
  }
}

/** A chunk that is reduced. */
interface Turn {
  readonly occasion: number
  readonly chunk: number
}

/** By node that nothing needs but one chunk that is reduced: that chunk. */
function turnsOf({ nodes, outputs }: Graph): Map<Node, Turn> {
  const found = new Map<Node, Turn>()
  const users = new Map<ValueId, Node[]>()
  const given = new Set(outputs.map(({ value }) => value))
  for (const node of nodes.toReversed()) {
    const all = node.outputs.flatMap((output) => users.get(output) ?? [])
    const turns = all.map((user) => (user.op === 'communicate' ? turnOf(user.attributes) : found.get(user)))
    const [first] = turns
    const isSole = turns.every((own) => own?.occasion === first?.occasion && own?.chunk === first?.chunk)
    const isGiven = node.outputs.some((output) => given.has(output))
    if (first !== undefined && isSole && !isGiven && node.op !== 'communicate') found.set(node, first)
    for (const input of node.inputs) users.set(input, [...(users.get(input) ?? []), node])
  }
  return found
}

function turnOf({ operation, occasion, chunk }: OpAttributes['communicate']): Turn | undefined {
  if (operation === 'allGather' || occasion === undefined || chunk === undefined) return undefined
  return { occasion, chunk }
}
