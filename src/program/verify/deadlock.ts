import { IntList } from '../intList.ts'
import { findCycle, Merged } from './cycles.ts'
import { issueEdges, memoryEdges, streamEdges } from './dependences.ts'
import { actionOf, type CycleEdge, type Finding, rankList, type VerifyContext } from './finding.ts'
import { type Meetings, meetingKinds, PairList, type Pairs, type RankGraph, rankGraph } from './meetings.ts'

/** Reasons as columns number them. */
const reasons = ['order', 'data', 'meets', 'slot'] as const satisfies readonly CycleEdge['why'][]

/** What must come before what, and why. */
class Edges {
  private readonly pairs = new PairList()
  private readonly reasons = new IntList()

  get from(): Int32Array {
    return this.pairs.from
  }

  get to(): Int32Array {
    return this.pairs.to
  }

  /** Indices into `reasons`. */
  get why(): Int32Array {
    return this.reasons.view()
  }

  add(from: number, to: number, why: CycleEdge['why']): void {
    this.pairs.add(from, to)
    this.reasons.push(reasons.indexOf(why))
  }

  addAll(
    { from, to }: Pairs,
    why: CycleEdge['why'],
    nodeOf: (node: number) => number = (node) => node,
  ): this {
    const reason = reasons.indexOf(why)
    for (let edge = 0; edge < from.length; edge++) {
      this.pairs.add(nodeOf(from[edge]!), to[edge]!)
      this.reasons.push(reason)
    }
    return this
  }
}

/** Nodes, which of them happen together, and what must come before what. */
interface WaitGraph {
  readonly nodes: number
  /** Instruction (a node of the rank graph) that a node belongs to. */
  readonly instruction: (node: number) => number
  readonly together: Pairs
  readonly edges: Edges
}

/**
 * No deadlock under rendezvous: with both ends of each transfer, all parts of an exchange and all members of each
 * collective merged, the graph of stream order, data and slot reuse has no cycle. That an exchange is one node asks
 * more than an engine needs that posts its parts at once; it holds for engines that complete an exchange as one.
 */
export function checkDeadlock(context: VerifyContext): Finding[] {
  const graph = graphOf(context)
  const { order, data } = ordersOf(context, graph)
  const edges = new Edges().addAll(order, 'order').addAll(data, 'data')
  return cycleFinding(context, graph, withoutParts(graph, edges), {
    code: 'DEADLOCK',
    message: 'wait for each other in a circle',
    fix: 'issue the instructions of the circle in one order on all ranks',
  })
}

/**
 * No deadlock when a send waits only until fewer than `channelSlots` messages of its channel are under way: send n
 * comes after receive n - slots. Parts of an exchange are posted together and complete each by itself.
 */
export function checkBufferedDeadlock(context: VerifyContext): Finding[] {
  const slots = context.program.channelSlots
  const graph = graphOf(context)
  return cycleFinding(context, graph, buffered(graph, ordersOf(context, graph), slots), {
    code: 'DEADLOCK_BUFFERED',
    message: `wait for each other in a circle even with ${slots} message${slots === 1 ? '' : 's'} under way on each channel`,
    fix: 'issue the instructions of the circle in one order on all ranks',
  })
}

/**
 * One queue: some total order of all communication agrees with every rank's issue order over all its streams. Since data
 * follows the list too, this asks more than the absence of deadlock.
 */
export function checkOneQueue(context: VerifyContext): Finding[] {
  const graph = graphOf(context)
  const edges = new Edges().addAll(
    graph.expand((role) => issueEdges(context.roles[role]!)),
    'order',
  )
  return cycleFinding(context, graph, withoutParts(graph, edges), {
    code: 'ISSUE_ORDER',
    message: 'issue communication in orders that no single queue agrees with, which may hang on NCCL',
    fix: 'issue these communications in the same relative order on all ranks',
  })
}

interface Orders {
  readonly order: Pairs
  readonly data: Pairs
}

/** What several checks of one program ask for. */
const graphs = new WeakMap<VerifyContext, RankGraph>()
const orders = new WeakMap<RankGraph, Orders>()

function graphOf(context: VerifyContext): RankGraph {
  const graph = graphs.get(context) ?? rankGraph(context)
  graphs.set(context, graph)
  return graph
}

/** Stream order and memory of every rank. */
function ordersOf({ roles }: VerifyContext, graph: RankGraph): Orders {
  const known = orders.get(graph)
  if (known !== undefined) return known
  const made = {
    order: graph.expand((role) => streamEdges(roles[role]!)),
    data: graph.expand((role) => memoryEdges(roles[role]!)),
  }
  orders.set(graph, made)
  return made
}

function withoutParts(graph: RankGraph, edges: Edges): WaitGraph {
  return {
    nodes: graph.nodes,
    instruction: (node) => node,
    together: pairUp(graph.meetings, false),
    edges,
  }
}

/** An exchange of several parts is a start, its parts, and an end. */
function buffered(graph: RankGraph, { order, data }: Orders, slots: number): WaitGraph {
  const { node: nodes, kind, channel: channelOf, channels: channelCount } = graph.meetings
  const owners: number[] = []
  const edges = new Edges()
  const add = (instruction: number): number => graph.nodes + owners.push(instruction) - 1
  const partsOf = new Int32Array(graph.nodes)
  for (const node of nodes) partsOf[node]!++
  const ends = new Int32Array(graph.nodes).fill(-1)
  const part = (node: number): number => {
    if (partsOf[node] === 1) return node
    if (ends[node]! < 0) ends[node] = add(node)
    const made = add(node)
    edges.add(node, made, 'order')
    edges.add(made, ends[node]!, 'order')
    return made
  }
  const channels = Array.from({ length: channelCount }, () => ({
    sends: [] as number[],
    recvs: [] as number[],
  }))
  for (let meeting = 0; meeting < nodes.length; meeting++) {
    if (kind[meeting] === meetingKinds.collective) continue
    const channel = channels[channelOf[meeting]!]!
    const side = kind[meeting] === meetingKinds.send ? channel.sends : channel.recvs
    side.push(part(nodes[meeting]!))
  }
  for (const { sends, recvs } of channels)
    for (const [index, send] of sends.entries()) {
      const recv = recvs[index]
      if (recv !== undefined) edges.add(send, recv, 'meets')
      const earlier = recvs[index - slots]
      if (earlier !== undefined) edges.add(earlier, send, 'slot')
    }
  const ended = (node: number): number => (ends[node]! < 0 ? node : ends[node]!)
  edges.addAll(order, 'order', ended).addAll(data, 'data', ended)
  return {
    nodes: graph.nodes + owners.length,
    instruction: (node) => (node < graph.nodes ? node : owners[node - graph.nodes]!),
    together: pairUp(graph.meetings, true),
    edges,
  }
}

/** Pairs of nodes that meet. */
function pairUp({ node, kind, key, keys }: Meetings, onlyCollectives: boolean): Pairs {
  const first = new Int32Array(keys).fill(-1)
  const pairs = new PairList()
  for (let meeting = 0; meeting < node.length; meeting++) {
    if (onlyCollectives && kind[meeting] !== meetingKinds.collective) continue
    const known = first[key[meeting]!]!
    if (known < 0) first[key[meeting]!] = node[meeting]!
    else pairs.add(known, node[meeting]!)
  }
  return pairs
}

function cycleFinding(
  context: VerifyContext,
  graph: RankGraph,
  waits: WaitGraph,
  words: { readonly code: string; readonly message: string; readonly fix: string },
): Finding[] {
  const merged = new Merged(waits.nodes)
  merged.mergeAll(waits.together)
  const { from, to, why: whys } = waits.edges
  const found = findCycle(waits.nodes, { from: merged.findAll(from), to: merged.findAll(to) })
  if (found === undefined) return []
  const steps = found
    .map((edge) => ({
      from: waits.instruction(from[edge]!),
      to: waits.instruction(to[edge]!),
      why: reasons[whys[edge]!]!,
    }))
    // Steps inside one exchange.
    .filter((step) => step.from !== step.to)
    .map((step): CycleEdge => ({ ...step, from: graph.place(step.from), to: graph.place(step.to) }))
  const cycle = fromLowestRank(steps)
  const places = cycle.flatMap((step) => [step.from, step.to])
  const ranks = [...new Set(places.map((place) => place.rank!))].sort((a, b) => a - b)
  const action = places
    .map((place) => actionOf(context.roles[place.role]!, place.instruction))
    .find((item) => item.stage !== undefined)
  const { code, message, fix } = words
  return [{ code, message: `${rankList(ranks)} ${message}`, fix, ...action, ranks, places, cycle }]
}

/** The same circle, told from where its lowest rank comes in. */
function fromLowestRank(cycle: readonly CycleEdge[]): readonly CycleEdge[] {
  const entries = cycle.flatMap(({ from }, index) => {
    const before = cycle.at(index - 1)!.to
    return before.rank === from.rank && before.instruction === from.instruction ? [] : [{ from, index }]
  })
  entries.sort((a, b) => a.from.rank! - b.from.rank! || a.from.instruction - b.from.instruction)
  const start = entries[0]?.index ?? 0
  return [...cycle.slice(start), ...cycle.slice(0, start)]
}
