import { type Edge, findCycle, Merged } from './cycles.ts'
import { issueEdges, memoryEdges, streamEdges } from './dependences.ts'
import { actionOf, type CycleEdge, type Finding, rankList, type VerifyContext } from './finding.ts'
import { type Meeting, type NodePair, type RankGraph, rankGraph } from './meetings.ts'

interface Label {
  readonly from: number
  readonly to: number
  readonly why: CycleEdge['why']
}

/** Nodes, which of them happen together, and what must come before what. */
interface WaitGraph {
  readonly nodes: number
  /** Instruction (a node of the rank graph) that a node belongs to. */
  readonly instruction: (node: number) => number
  readonly together: readonly NodePair[]
  readonly edges: readonly Label[]
}

/**
 * No deadlock under rendezvous: with both ends of each transfer, all parts of an exchange and all members of each
 * collective merged, the graph of stream order, data and slot reuse has no cycle. That an exchange is one node asks
 * more than an engine needs that posts its parts at once; it holds for engines that complete an exchange as one.
 */
export function checkDeadlock(context: VerifyContext): Finding[] {
  const graph = rankGraph(context)
  return cycleFinding(context, graph, withoutParts(graph, ordersOf(context, graph)), {
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
  const graph = rankGraph(context)
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
  const graph = rankGraph(context)
  const issued = graph.expand((role) => issueEdges(context.roles[role]!))
  const edges = issued.map(([from, to]): Label => ({ from, to, why: 'order' }))
  return cycleFinding(context, graph, withoutParts(graph, edges), {
    code: 'ISSUE_ORDER',
    message: 'issue communication in orders that no single queue agrees with, which may hang on NCCL',
    fix: 'issue these communications in the same relative order on all ranks',
  })
}

/** Stream order and memory of every rank. */
function ordersOf({ roles }: VerifyContext, graph: RankGraph): Label[] {
  const order = graph.expand((role) => streamEdges(roles[role]!))
  const data = graph.expand((role) => memoryEdges(roles[role]!))
  return [
    ...order.map(([from, to]): Label => ({ from, to, why: 'order' })),
    ...data.map(([from, to]): Label => ({ from, to, why: 'data' })),
  ]
}

function withoutParts(graph: RankGraph, edges: readonly Label[]): WaitGraph {
  return {
    nodes: graph.nodes,
    instruction: (node) => node,
    together: pairUp(graph.meetings, ({ node }) => node),
    edges,
  }
}

/** An exchange of several parts is a start, its parts, and an end. */
function buffered(graph: RankGraph, orders: readonly Label[], slots: number): WaitGraph {
  const owners: number[] = []
  const edges: Label[] = []
  const add = (instruction: number): number => graph.nodes + owners.push(instruction) - 1
  const partsOf = new Map<number, number>()
  for (const { node } of graph.meetings) partsOf.set(node, (partsOf.get(node) ?? 0) + 1)
  const ends = new Map<number, number>()
  const part = (node: number): number => {
    if (partsOf.get(node) === 1) return node
    const end = ends.get(node) ?? add(node)
    ends.set(node, end)
    const made = add(node)
    edges.push({ from: node, to: made, why: 'order' }, { from: made, to: end, why: 'order' })
    return made
  }
  const channels = new Map<string, { sends: number[]; recvs: number[] }>()
  for (const meeting of graph.meetings) {
    if (meeting.kind === 'collective') continue
    const channel = channels.get(meeting.channel) ?? { sends: [], recvs: [] }
    channels.set(meeting.channel, channel)
    channel[meeting.kind === 'send' ? 'sends' : 'recvs'].push(part(meeting.node))
  }
  for (const { sends, recvs } of channels.values())
    sends.forEach((send, index) => {
      const recv = recvs[index]
      if (recv !== undefined) edges.push({ from: send, to: recv, why: 'meets' })
      const earlier = recvs[index - slots]
      if (earlier !== undefined) edges.push({ from: earlier, to: send, why: 'slot' })
    })
  for (const { from, to, why } of orders) edges.push({ from: ends.get(from) ?? from, to, why })
  return {
    nodes: graph.nodes + owners.length,
    instruction: (node) => (node < graph.nodes ? node : owners[node - graph.nodes]!),
    together: pairUp(
      graph.meetings.filter(({ kind }) => kind === 'collective'),
      ({ node }) => node,
    ),
    edges,
  }
}

/** Pairs of nodes that meet. */
function pairUp(meetings: readonly Meeting[], node: (meeting: Meeting) => number): NodePair[] {
  const first = new Map<string, number>()
  const pairs: NodePair[] = []
  for (const meeting of meetings) {
    const known = first.get(meeting.key)
    if (known === undefined) first.set(meeting.key, node(meeting))
    else pairs.push([known, node(meeting)])
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
  for (const [a, b] of waits.together) merged.merge(a, b)
  const edges = waits.edges.map(
    (label): Edge<Label> => ({ from: merged.find(label.from), to: merged.find(label.to), label }),
  )
  const found = findCycle(waits.nodes, edges)
  if (found === undefined) return []
  const steps = found
    .map(({ label }) => ({
      from: waits.instruction(label.from),
      to: waits.instruction(label.to),
      why: label.why,
    }))
    // Steps inside one exchange.
    .filter(({ from, to }) => from !== to)
    .map(({ from, to, why }): CycleEdge => ({ from: graph.place(from), to: graph.place(to), why }))
  const cycle = fromLowestRank(steps)
  const places = cycle.flatMap(({ from, to }) => [from, to])
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
