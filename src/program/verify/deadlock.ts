import { type Edge, findCycle, Merged } from './cycles.ts'
import { issueEdges, memoryEdges, streamEdges } from './dependences.ts'
import {
  actionOf,
  type CycleEdge,
  type Finding,
  type InstructionPlace,
  type VerifyContext,
} from './finding.ts'
import { type RankGraph, rankGraph } from './meetings.ts'

interface Label {
  readonly from: number
  readonly to: number
  readonly why: CycleEdge['why']
}

/**
 * No deadlock under rendezvous: with both ends of each transfer, all parts of an exchange and all members of each
 * collective merged, the graph of stream order, data and slot reuse has no cycle.
 */
export function checkDeadlock(context: VerifyContext): Finding[] {
  const graph = rankGraph(context)
  const edges = [
    ...label(
      graph.expand((role) => streamEdges(context.roles[role]!)),
      'order',
    ),
    ...label(
      graph.expand((role) => memoryEdges(context.roles[role]!)),
      'data',
    ),
  ]
  return cycleFinding(context, graph, edges, {
    code: 'DEADLOCK',
    message: 'ranks wait for each other in a circle',
    fix: 'issue the instructions of the circle in one order on all ranks',
  })
}

/**
 * No deadlock when a send waits only until fewer than `slots` messages of its channel are under way: send n comes after
 * receive n - slots.
 */
export function checkBufferedDeadlock(context: VerifyContext, slots: number): Finding[] {
  const graph = rankGraph(context)
  const channels = new Map<string, { sends: number[]; recvs: number[] }>()
  for (const meeting of graph.meetings) {
    if (meeting.kind === 'collective') continue
    const channel = channels.get(meeting.channel) ?? { sends: [], recvs: [] }
    channels.set(meeting.channel, channel)
    channel[meeting.kind === 'send' ? 'sends' : 'recvs'].push(meeting.node)
  }
  const meets: [number, number][] = []
  for (const { sends, recvs } of channels.values())
    sends.forEach((send, index) => {
      const recv = recvs[index]
      if (recv !== undefined) meets.push([send, recv])
      const earlier = recvs[index - slots]
      if (earlier !== undefined) meets.push([earlier, send])
    })
  const edges = [
    ...label(
      graph.expand((role) => streamEdges(context.roles[role]!)),
      'order',
    ),
    ...label(
      graph.expand((role) => memoryEdges(context.roles[role]!)),
      'data',
    ),
    ...label(meets, 'meets'),
  ]
  return cycleFinding(
    context,
    graph,
    edges,
    {
      code: 'DEADLOCK_BUFFERED',
      message: `ranks wait for each other in a circle even with ${slots} messages under way on each channel`,
      fix: 'issue the instructions of the circle in one order on all ranks',
    },
    (meeting) => meeting.kind === 'collective',
  )
}

/** One queue: some total order of all communication agrees with every rank's issue order over all its streams. */
export function checkOneQueue(context: VerifyContext): Finding[] {
  const graph = rankGraph(context)
  const edges = label(
    graph.expand((role) => issueEdges(context.roles[role]!)),
    'order',
  )
  return cycleFinding(context, graph, edges, {
    code: 'ISSUE_ORDER',
    message: 'ranks issue communication in orders that no single queue agrees with, which may hang on NCCL',
    fix: 'issue these communications in the same relative order on all ranks',
  })
}

function label(edges: readonly (readonly [number, number])[], why: CycleEdge['why']): Label[] {
  return edges.map(([from, to]) => ({ from, to, why }))
}

function cycleFinding(
  context: VerifyContext,
  graph: RankGraph,
  labels: readonly Label[],
  words: { code: string; message: string; fix: string },
  merges: (meeting: RankGraph['meetings'][number]) => boolean = () => true,
): Finding[] {
  const merged = new Merged(graph.nodes)
  const first = new Map<string, number>()
  for (const meeting of graph.meetings) {
    if (!merges(meeting)) continue
    const known = first.get(meeting.key)
    if (known === undefined) first.set(meeting.key, meeting.node)
    else merged.merge(known, meeting.node)
  }
  const edges = labels.map(
    (item): Edge<Label> => ({ from: merged.find(item.from), to: merged.find(item.to), label: item }),
  )
  const found = findCycle(graph.nodes, edges)
  if (found === undefined) return []
  const cycle = found.map(
    ({ label: item }): CycleEdge => ({
      from: graph.place(item.from),
      to: graph.place(item.to),
      why: item.why,
    }),
  )
  const places: InstructionPlace[] = cycle.flatMap((edge) => [edge.from, edge.to])
  const ranks = [...new Set(places.map((place) => place.rank!))].sort((a, b) => a - b)
  const action = places
    .map((place) => actionOf(context.roles[place.role]!, place.instruction))
    .find((item) => item.stage !== undefined)
  return [{ ...words, ...action, ranks, places, cycle }]
}
