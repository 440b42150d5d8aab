import { byteSize, type Node, recomputeClass, type ValueId } from '../../graph/index.ts'
import type { Communicate, Flow } from './flow.ts'

/** What a phase does with its outputs. */
export interface OutputMarks {
  /** Added up over micro-batches, so that nothing in the phase waits for it. */
  readonly isAccumulated: (output: string) => boolean
  /** Outputs that are ids of rows, by the output that has those rows: they are needed where that is made. */
  readonly idsOf: ReadonlyMap<string, string>
}

/**
 * Pieces of a phase between its communications, by number in their order: piece 2 k makes what the communications after
 * k others need, piece 2 k + 1 runs while those are under way.
 */
export interface Placement {
  readonly pieceOf: ReadonlyMap<Node, number>
  /** The piece, whether or not there is something in it, after which a communication is issued. */
  readonly issued: ReadonlyMap<Communicate, number>
}

/**
 * Puts every node into a piece. What a communication needs comes first. A product that nothing waits for runs during it,
 * with what leads to the product and follows from it; what else does not wait is in the piece that has its operands. A
 * node that only later pieces need is put into the first of them unless more bytes then cross. A communication is issued
 * with those that its first user waits for, not before: gathered parts of weights, say, are there when they are needed.
 */
export function placeNodes(flow: Flow, marks: OutputMarks): Placement {
  const { level, root, placed, communications, lastLevel } = flow
  const pieceOf = new Map<Node, number>()
  /** By communication: the piece after which it is issued. */
  const issued = new Map<Communicate, number>()
  const waited = waitedFor(flow, marks)
  const byLevel = Array.from({ length: lastLevel + 1 }, (): Node[] => [])
  for (const node of placed) byLevel[level[node.outputs[0]!]!]!.push(node)
  for (let own = 0; own <= lastLevel; own++) {
    const here = communications.filter((node) => level[node.inputs[0]!] === own)
    const urgent = here.filter((node) => waited.has(root[node.outputs[0]!]!))
    const first = urgent.length > 0 ? urgent : here
    const early = behind(
      flow,
      own,
      first.map((node) => node.inputs[0]!),
    )
    const late = here.length === 0 ? new Set<Node>() : lateNodes(flow, own, byLevel[own]!, early)
    for (const node of byLevel[own]!) pieceOf.set(node, late.has(node) ? 2 * own + 1 : 2 * own)
    for (const node of here) {
      const source = flow.maker[root[node.inputs[0]!]!]
      issued.set(node, source !== undefined && late.has(source) ? 2 * own + 1 : 2 * own)
    }
  }
  postpone(flow, marks, pieceOf, issued)
  behindChunks(flow, pieceOf, issued)
  return { pieceOf, issued }
}

/** Roots from which something else follows than what is accumulated. */
function waitedFor({ graph, root }: Flow, { isAccumulated, idsOf }: OutputMarks): ReadonlySet<ValueId> {
  const found = new Set<ValueId>()
  for (const { name, value } of graph.outputs)
    if (!isAccumulated(name) && !idsOf.has(name)) found.add(root[value]!)
  for (const node of graph.nodes.toReversed())
    if (node.outputs.some((output) => found.has(root[output]!)))
      for (const input of node.inputs) found.add(root[input]!)
  return found
}

/** Nodes of a level that values follow from. */
function behind(
  { maker, root, level, free }: Flow,
  own: number,
  values: readonly ValueId[],
  within?: ReadonlySet<Node>,
): Set<Node> {
  const found = new Set<Node>()
  const open = values.map((value) => root[value]!)
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const node = maker[value]
    if (node === undefined || node.op === 'communicate' || free.has(value) || level[value] !== own) continue
    if (found.has(node) || within?.has(node) === false) continue
    found.add(node)
    for (const input of node.inputs) open.push(root[input]!)
  }
  return found
}

/** Of the nodes of a level, those that run while what the early ones made is communicated. */
function lateNodes(flow: Flow, own: number, nodes: readonly Node[], early: ReadonlySet<Node>): Set<Node> {
  const { graph, maker, root, level, free } = flow
  const rest = new Set(nodes.filter((node) => !early.has(node)))
  if (early.size === 0) return rest
  const products = [...rest].filter((node) => isProduct(graph, node))
  if (products.length === 0) return new Set()
  const late = behind(
    flow,
    own,
    products.flatMap((node) => node.outputs),
    rest,
  )
  const reads = new Set<ValueId>()
  const noteReads = (node: Node): void => {
    for (const input of node.inputs) reads.add(root[input]!)
  }
  late.forEach(noteReads)
  for (const node of rest) {
    if (late.has(node)) continue
    const makers = node.inputs.flatMap((input) => {
      const value = root[input]!
      const made = maker[value]
      const isHere = made !== undefined && made.op !== 'communicate' && level[value] === own
      return isHere && !free.has(value) ? [{ value, made }] : []
    })
    // What it takes is there by then anyway.
    if (makers.some(({ made }) => late.has(made)) || makers.every(({ value }) => reads.has(value))) {
      late.add(node)
      noteReads(node)
    }
  }
  return late
}

function isProduct(graph: Flow['graph'], node: Node): boolean {
  const found = recomputeClass(graph, node)
  return found === 'product' || found === 'attention'
}

/** Moves nodes and communications to where they are needed, where no more bytes then cross. */
function postpone(
  flow: Flow,
  marks: OutputMarks,
  pieceOf: Map<Node, number>,
  issued: Map<Communicate, number>,
): void {
  const { graph, root, free, placed, maker, communications } = flow
  const kept = new Set<ValueId>()
  for (const { name, value } of graph.outputs) if (!marks.idsOf.has(name)) kept.add(root[value]!)
  const users = new Map<ValueId, Node[]>()
  for (const node of [...placed, ...communications])
    for (const input of rootsOf(flow, node)) users.set(input, [...(users.get(input) ?? []), node])
  const idsUsers = idsPieces(flow, marks, { pieceOf, issued })
  const pieceFor = (node: Node): number => pieceOf.get(node) ?? issued.get(node as Communicate)!
  const piecesOf = (value: ValueId, but?: Node): number[] => [
    ...(users.get(value) ?? []).filter((user) => user !== but).map(pieceFor),
    ...(idsUsers.get(value) ?? []),
  ]
  const bytes = (value: ValueId): number => byteSize(graph.values[value]!.type)
  /** What is in memory in any case, as an output or to be communicated. */
  const present = new Set([...kept, ...communications.flatMap((node) => rootsOf(flow, node))])
  /** What a later piece has to be given at most so as to have a value, in bytes. */
  const prices = new Map<ValueId, number>()
  const price = (value: ValueId): number => prices.get(value) ?? 0
  for (const node of placed) {
    const behind = isProduct(graph, node) ? Infinity : sum(rootsOf(flow, node).map(price))
    for (const output of node.outputs)
      prices.set(output, present.has(output) ? 0 : Math.min(bytes(output), behind))
  }
  const added = (value: ValueId, node: Node): number => {
    const made = maker[value]
    if (made === undefined || free.has(value)) return 0
    const crosses = piecesOf(value, node).some((piece) => piece !== pieceOf.get(made))
    return crosses ? 0 : price(value)
  }
  for (const node of graph.nodes.toReversed()) {
    const first = Math.min(...node.outputs.flatMap((output) => piecesOf(output)))
    if (first === Infinity) continue
    if (node.op === 'communicate') {
      // With what the piece before the first user makes for it.
      issued.set(node, Math.max(issued.get(node)!, 2 * Math.floor(first / 2) - 2 - ahead(node)))
      continue
    }
    const own = pieceOf.get(node)
    if (own === undefined || own >= first) continue
    if (isProduct(graph, node) || node.outputs.some((output) => kept.has(output))) continue
    const saved = node.outputs.filter((output) => {
      const pieces = piecesOf(output)
      return pieces.length > 0 && !present.has(output) && pieces.every((piece) => piece === first)
    })
    if (sum(rootsOf(flow, node).map((value) => added(value, node))) <= sum(saved.map(bytes)))
      pieceOf.set(node, first)
  }
}

/** Moves what runs during the first of several chunks to the last, as the others are hidden by each other. */
function behindChunks(
  flow: Flow,
  pieceOf: Map<Node, number>,
  issued: ReadonlyMap<Communicate, number>,
): void {
  const { placed, communications, chunkLevels } = flow
  const users = new Map<ValueId, Node[]>()
  for (const node of [...placed, ...communications])
    for (const input of rootsOf(flow, node)) users.set(input, [...(users.get(input) ?? []), node])
  for (const node of placed.toReversed()) {
    const own = pieceOf.get(node)!
    if (own % 2 === 0) continue
    const uses = node.outputs.flatMap((output) => users.get(output) ?? [])
    const pieces = uses.map((user) => pieceOf.get(user) ?? issued.get(user as Communicate)!)
    const last = 2 * chunkLevels.last((own - 1) / 2) + 1
    pieceOf.set(node, Math.max(own, Math.min(last, ...pieces)))
  }
}

/** How many pieces sooner a chunk is issued: while the one before it is used, or as soon as its product is made. */
function ahead({ attributes: { operation, chunk } }: Communicate): number {
  if (chunk === undefined) return 0
  if (operation !== 'allGather') return Infinity
  return chunk === 0 ? 0 : 2
}

function rootsOf({ root }: Flow, node: Node): ValueId[] {
  return [...new Set(node.inputs.map((input) => root[input]!))]
}

/** By root of ids: the pieces that need them, with the rows that they place. */
export function idsPieces(
  { graph, root, maker }: Flow,
  { idsOf }: OutputMarks,
  { pieceOf, issued }: Placement,
): ReadonlyMap<ValueId, readonly number[]> {
  const roots = new Map(graph.outputs.map(({ name, value }) => [name, root[value]!]))
  const found = new Map<ValueId, number[]>()
  for (const [ids, rows] of idsOf) {
    const [from, to] = [roots.get(ids), roots.get(rows)]
    if (from === undefined || to === undefined) continue
    const made = maker[to]
    const piece = (made && pieceOf.get(made)) ?? copyPiece(made, issued)
    found.set(from, [...(found.get(from) ?? []), piece])
  }
  return found
}

/** The first piece that has what no piece makes: the result of a communication, or an input. */
export function copyPiece(made: Node | undefined, issued: Placement['issued']): number {
  return made?.op === 'communicate' ? 2 * Math.floor(issued.get(made)! / 2) + 2 : 0
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
