import { MeshwrightError } from '../base/index.ts'
import {
  columnKinds,
  coordinatesOf,
  dividedMesh,
  formatInstruction,
  memberFinder,
  type Program,
  type ProgramMesh,
  peerRank,
  rankAt,
  rankCount,
  roleRanks,
} from '../program/index.ts'
import { collectiveAt, planRole } from './rolePlan.ts'
import type { Channel, CostModel, Meeting, Network, RolePlan, SimulatedRank } from './types.ts'

/** Programs of up to this many ranks are simulated rank by rank. */
const ranksInFull = 64

/**
 * Who meets whom. In a large program most ranks are copies of each other: where shifting an axis maps peers, groups and
 * roles onto themselves, and does not change the class of any link, copies do the same at the same times, by induction
 * over what happens first; so the first of them is simulated, and what they would do together (a collective over all
 * copies) begins when it is ready.
 *
 * @throws MeshwrightError `SIMULATE_TRANSFER` where the two ends of transfers do not match
 */
export function buildNetwork(program: Program, costs: CostModel, inFull: number = ranksInFull): Network {
  const plans = program.roles.map((_, index) => planRole(program, index, costs))
  const part = simulatedMesh(program, plans, costs, inFull)
  const ranks = listRanks(program, part, plans)
  const channels = collectChannels(program, ranks)
  const meetings = collectMeetings(program, part, ranks, costs)
  const nodes = ranks.reduce((sum, { plan }) => sum + plan.length, 0)
  return { program, costs, ranks, nodes, meetings, ...numberMessages(program, costs, ranks, channels) }
}

/** Index of the rank that a node belongs to. */
export function rankOf({ ranks }: Pick<Network, 'ranks'>, node: number): number {
  let low = 0
  let high = ranks.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (ranks[middle]!.base <= node) low = middle
    else high = middle - 1
  }
  return low
}

interface RankDraft extends SimulatedRank {
  readonly meetings: Map<number, number>
}

function listRanks(program: Program, part: ProgramMesh, plans: readonly RolePlan[]): RankDraft[] {
  const drafts: Omit<RankDraft, 'base'>[] = plans.flatMap((plan) => {
    const role = program.roles[plan.index]!
    const some = roleRanks(part, role)
    const copies = roleRanks(program.mesh, role).length / some.length
    return some.map((rank) => ({
      rank: rankAt(program.mesh, coordinatesOf(part, rank))!,
      copies,
      plan,
      messages: new Int32Array(plan.partIsSend.length),
      meetings: new Map<number, number>(),
    }))
  })
  drafts.sort((a, b) => a.rank - b.rank)
  let base = 0
  return drafts.map((draft) => {
    const ranked = { ...draft, base }
    base += draft.plan.length
    return ranked
  })
}

/** The mesh whose ranks are simulated: the whole, or one copy of what repeats. */
function simulatedMesh(
  program: Program,
  plans: readonly RolePlan[],
  costs: CostModel,
  inFull: number,
): ProgramMesh {
  const { mesh } = program
  if (rankCount(mesh) <= inFull) return mesh
  const part = dividedMesh(program)
  const { link } = costs
  if (link === undefined) return part
  const members = memberFinder(mesh)
  for (const plan of plans) {
    const role = program.roles[plan.index]!
    const used = usedGroups(program, plan)
    const classes = new Map<number, string>()
    for (const rank of roleRanks(mesh, role)) {
      const own = coordinatesOf(mesh, rank)
      const sizes = part.submeshes[own.pipeline]!
      const axes = Object.fromEntries(sizes.map(({ name, size }) => [name, own.axes[name]! % size]))
      const first = rankAt(mesh, { pipeline: own.pipeline, axes })!
      const peers = role.peers.map((peer) => peerRank(mesh, own, peer))
      const seen = [
        ...peers.map((peer) => (peer === undefined ? -1 : link([rank, peer]))),
        ...used.map((group) => link(members(program.groups[group]!, own))),
      ].join(' ')
      const known = classes.get(first)
      if (known === undefined) classes.set(first, seen)
      else if (known !== seen) return mesh
    }
  }
  return part
}

function usedGroups(program: Program, plan: RolePlan): number[] {
  const { start, operands } = program.roles[plan.index]!.code
  return [...new Set([...plan.payload.keys()].map((at) => operands[start[at]! + 2]!))]
}

interface ChannelEnds {
  readonly from: number
  readonly to: number
  readonly stream: number
  /** Parts of `from`, and of `to`. */
  readonly sends: number[]
  readonly recvs: number[]
}

function collectChannels(program: Program, ranks: readonly SimulatedRank[]): ChannelEnds[] {
  const { mesh } = program
  const indices = new Map(ranks.map(({ rank }, index) => [rank, index]))
  const streams = program.streams.length
  const known = new Map<number, ChannelEnds>()
  ranks.forEach(({ rank, plan }, index) => {
    const role = program.roles[plan.index]!
    const own = coordinatesOf(mesh, rank)
    const peers = role.peers.map((peer) => peerRank(mesh, own, peer))
    for (let at = 0; at < plan.length; at++) {
      if (plan.kind[at] !== columnKinds.exchange) continue
      const stream = plan.stream[at]!
      for (let part = plan.partStart[at]!; part < plan.partStart[at + 1]!; part++) {
        const other = peers[plan.partPeer[part]!]
        const there = other === undefined ? undefined : indices.get(other)
        if (there === undefined)
          throw transferError(`rank ${rank} has no one at the other end of #${plan.partTransfer[part]}`)
        const sends = plan.partIsSend[part] === 1
        const [from, to] = sends ? [index, there] : [there, index]
        const key = (from * ranks.length + to) * streams + stream
        let channel = known.get(key)
        if (channel === undefined) {
          channel = { from, to, stream, sends: [], recvs: [] }
          known.set(key, channel)
        }
        ;(sends ? channel.sends : channel.recvs).push(part)
      }
    }
  })
  return [...known.values()]
}

function numberMessages(
  program: Program,
  costs: CostModel,
  ranks: readonly SimulatedRank[],
  ends: readonly ChannelEnds[],
): Omit<Network, 'program' | 'costs' | 'ranks' | 'nodes' | 'meetings'> {
  const count = ends.reduce((sum, { sends }) => sum + sends.length, 0)
  const sender = new Int32Array(count)
  const receiver = new Int32Array(count)
  const channelOf = new Int32Array(count)
  const transfer = new Int32Array(count)
  const busy = new Float64Array(count)
  const latency = new Float64Array(count)
  const receive = new Float64Array(count)
  const ownerOf = ranks.map(({ plan }) => owners(plan))
  let first = 0
  const channels = ends.map(({ from, to, stream, sends, recvs }, channel): Channel => {
    const [source, target] = [ranks[from]!, ranks[to]!]
    const between = `from rank ${source.rank} to rank ${target.rank} on stream ${program.streams[stream]!.name}`
    if (sends.length !== recvs.length)
      throw transferError(`${sends.length} messages are sent and ${recvs.length} received ${between}`)
    const link = costs.link?.([source.rank, target.rank]) ?? 0
    sends.forEach((part, place) => {
      const message = first + place
      const other = recvs[place]!
      const id = source.plan.partTransfer[part]!
      if (target.plan.partTransfer[other] !== id)
        throw transferError(
          `message ${place} ${between} is #${id} where it is sent and #${target.plan.partTransfer[other]} where it is received`,
        )
      source.messages[part] = message
      target.messages[other] = message
      sender[message] = source.base + ownerOf[from]![part]!
      receiver[message] = target.base + ownerOf[to]![other]!
      channelOf[message] = channel
      transfer[message] = id
      const cost = costs.transfer(source.plan.partBytes[part]!, link)
      busy[message] = cost.busy
      latency[message] = cost.latency
      receive[message] = cost.receive
    })
    first += sends.length
    return { from, to, stream, first: first - sends.length, count: sends.length }
  })
  return { channels, sender, receiver, channelOf, transfer, busy, latency, receive }
}

/** Instruction of each part. */
function owners({ partStart, partIsSend, length }: RolePlan): Int32Array {
  const owner = new Int32Array(partIsSend.length)
  for (let at = 0; at < length; at++) owner.fill(at, partStart[at]!, partStart[at + 1]!)
  return owner
}

function transferError(message: string): MeshwrightError {
  return new MeshwrightError('SIMULATE_TRANSFER', message, {
    hint: 'a verified program has both ends of every transfer, in one order: `verifyProgram` says what is wrong',
  })
}

function collectMeetings(
  program: Program,
  part: ProgramMesh,
  ranks: readonly RankDraft[],
  costs: CostModel,
): Meeting[] {
  const { mesh } = program
  const indices = new Map(ranks.map(({ rank }, index) => [rank, index]))
  const some = memberFinder(part, (rank) => rankAt(mesh, coordinatesOf(part, rank))!)
  const all = memberFinder(mesh)
  const meetings: (Meeting & { members: { rank: number; instruction: number }[] })[] = []
  const known = new Map<string, number>()
  ranks.forEach(({ rank, plan, meetings: own }, index) => {
    const role = program.roles[plan.index]!
    const { start, operands, target } = role.code
    const coordinates = coordinatesOf(mesh, rank)
    const mine = new Set<number>()
    for (const [at, payload] of plan.payload) {
      const group = program.groups[operands[start[at]! + 2]!]!
      const present = some(group, coordinates)
      const key = `${target[at]} ${group.name} ${present[0]}`
      let meeting = known.get(key)
      if (meeting === undefined) {
        const members = all(group, coordinates)
        const { operation } = collectiveAt(role, at)
        meeting = meetings.length
        meetings.push({
          expected: present.length,
          seconds: costs.collective(operation, payload, members.length, costs.link?.(members) ?? 0),
          members: [],
          ranks: present.map((member) => indices.get(member)!),
        })
        known.set(key, meeting)
      }
      if (mine.has(meeting))
        throw new MeshwrightError(
          'SIMULATE_COLLECTIVE',
          `rank ${rank} would do the same collective twice: ${formatInstruction(program, role, at)}`,
        )
      mine.add(meeting)
      meetings[meeting]!.members.push({ rank: index, instruction: at })
      own.set(at, meeting)
    }
  })
  return meetings
}
