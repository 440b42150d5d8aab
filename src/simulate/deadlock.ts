import { exitCodes, MeshwrightError } from '../base/index.ts'
import { columnKinds, formatInstruction } from '../program/index.ts'
import type { Network, SimulatedRank } from './types.ts'

/** Ranks that the message names. */
const namedRanks = 8

/** Why nobody can go on: `stuck` has the instruction that each rank (by index) stands at. */
export function deadlockError(
  network: Network,
  stuck: ReadonlyMap<number, number>,
  end: Float64Array,
  start: Float64Array,
): MeshwrightError {
  const all = [...stuck].sort(([a], [b]) => a - b)
  const lines = all.slice(0, namedRanks).map(([index, instruction]) => {
    const rank = network.ranks[index]!
    const role = network.program.roles[rank.plan.index]!
    const text = formatInstruction(network.program, role, instruction)
    const reason = whyStuck(network, rank, instruction, end, start)
    return `  rank ${rank.rank} at instruction ${instruction} (${text}) waits ${reason}`
  })
  const more = all.length > namedRanks ? [`  and ${all.length - namedRanks} more ranks`] : []
  return new MeshwrightError('SIMULATE_DEADLOCK', `no rank can go on:\n${[...lines, ...more].join('\n')}`, {
    exitCode: exitCodes.findings,
    hint: 'ranks wait for each other in a circle: the verifier marks it',
  })
}

function whyStuck(
  network: Network,
  rank: SimulatedRank,
  instruction: number,
  end: Float64Array,
  start: Float64Array,
): string {
  const { plan, base } = rank
  const role = network.program.roles[plan.index]!
  const isPosted = start[base + instruction]! >= 0
  if (plan.kind[instruction] === columnKinds.collective && isPosted) {
    const meeting = network.meetings[rank.meetings.get(instruction)!]!
    const here = new Set(
      meeting.members
        .filter((member) => start[network.ranks[member.rank]!.base + member.instruction]! >= 0)
        .map((member) => member.rank),
    )
    const missing = meeting.ranks
      .filter((index) => !here.has(index))
      .map((index) => network.ranks[index]!.rank)
    return `for rank${missing.length === 1 ? '' : 's'} ${missing.slice(0, namedRanks).join(', ')} to come`
  }
  if (plan.kind[instruction] === columnKinds.exchange && isPosted)
    return messagesOf(network, rank, instruction, start)
  for (let at = plan.depStart[instruction]!; at < plan.depStart[instruction + 1]!; at++) {
    const earlier = plan.deps[at]!
    if (end[base + earlier]! >= 0) continue
    const text = formatInstruction(network.program, role, earlier)
    const more =
      plan.kind[earlier] === columnKinds.exchange && start[base + earlier]! >= 0
        ? `, which waits ${messagesOf(network, rank, earlier, start)}`
        : ''
    return `for instruction ${earlier} (${text})${more}`
  }
  return 'for its turn'
}

/** The first message of an exchange whose other end is not there. */
function messagesOf(network: Network, rank: SimulatedRank, instruction: number, start: Float64Array): string {
  const { plan, messages } = rank
  for (let part = plan.partStart[instruction]!; part < plan.partStart[instruction + 1]!; part++) {
    const message = messages[part]!
    const { from, to } = network.channels[network.channelOf[message]!]!
    const other = plan.partIsSend[part] === 1 ? network.receiver[message]! : network.sender[message]!
    if (start[other]! >= 0) continue
    const peer = network.ranks[plan.partIsSend[part] === 1 ? to : from]!.rank
    return plan.partIsSend[part] === 1
      ? `for rank ${peer} to receive #${network.transfer[message]}`
      : `for rank ${peer} to send #${network.transfer[message]}`
  }
  return 'for a place in its channel'
}
