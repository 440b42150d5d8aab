import { internalError } from '../base/index.ts'
import { phaseLatency } from '../schedule/index.ts'
import { readInstructions } from './columns.ts'
import { roleRanks } from './mesh.ts'
import type { Program } from './types.ts'
import { Merged } from './verify/cycles.ts'
import { memoryEdges, streamEdges } from './verify/dependences.ts'
import { isOncePerStep, type RoleView } from './verify/finding.ts'
import { rankGraph } from './verify/meetings.ts'
import { rankViews } from './verify/ranks.ts'

export interface TimedInstruction {
  readonly rank: number
  readonly instruction: number
  readonly start: number
  readonly end: number
}

/**
 * When each instruction of each rank would start and end in units of the phases' latencies, if communication took no
 * time and streams never shared a resource: the longest path through the graph that the verifier proves free of
 * cycles. An update counts one unit, so that it can be seen.
 */
export function timeProgram(program: Program): TimedInstruction[] {
  const roles = program.roles.map((role, index) => ({
    index,
    role,
    ranks: roleRanks(program.mesh, role),
    instructions: readInstructions(role.code),
  }))
  const graph = rankGraph({ roles, ranks: rankViews(program, roles, Number.POSITIVE_INFINITY) })
  const merged = new Merged(graph.nodes)
  const first = new Map<string, number>()
  for (const { key, node } of graph.meetings) {
    const known = first.get(key)
    if (known === undefined) first.set(key, node)
    else merged.merge(known, node)
  }
  const members = new Map<number, number[]>()
  for (let node = 0; node < graph.nodes; node++) {
    const root = merged.find(node)
    const list = members.get(root)
    if (list === undefined) members.set(root, [node])
    else list.push(node)
  }
  const durations = roles.map(durationsOf)
  const edges = [
    ...graph.expand((role) => streamEdges(roles[role]!)),
    ...graph.expand((role) => memoryEdges(roles[role]!)),
  ]
  const after = new Map<number, number[]>()
  const waiting = new Map<number, number>([...members.keys()].map((root) => [root, 0]))
  for (const [from, to] of edges) {
    const [a, b] = [merged.find(from), merged.find(to)]
    waiting.set(b, waiting.get(b)! + 1)
    const list = after.get(a)
    if (list === undefined) after.set(a, [b])
    else list.push(b)
  }
  const startOf = new Map<number, number>([...members.keys()].map((root) => [root, 0]))
  const queue = [...members.keys()].filter((root) => waiting.get(root) === 0)
  const timed: TimedInstruction[] = []
  let done = 0
  for (let root = queue.pop(); root !== undefined; root = queue.pop()) {
    done++
    const start = startOf.get(root)!
    let end = start
    for (const node of members.get(root)!) {
      const place = graph.place(node)
      const finish = start + durations[place.role]![place.instruction]!
      end = Math.max(end, finish)
      timed.push({ rank: place.rank!, instruction: place.instruction, start, end: finish })
    }
    for (const next of after.get(root) ?? []) {
      startOf.set(next, Math.max(startOf.get(next)!, end))
      waiting.set(next, waiting.get(next)! - 1)
      if (waiting.get(next) === 0) queue.push(next)
    }
  }
  if (done < members.size) throw internalError('a program with a circle has no times')
  return timed.sort((a, b) => a.rank - b.rank || a.start - b.start || a.instruction - b.instruction)
}

/** Of each instruction. Of a phase that is done once a step, in however many parts, the first part counts. */
function durationsOf({ role, instructions }: RoleView): number[] {
  const counted = new Set<string>()
  return instructions.map((instruction) => {
    const action =
      instruction.kind !== 'run' || instruction.action === undefined
        ? undefined
        : role.actions[instruction.action]
    if (action === undefined) return 0
    const { phase, stage } = action
    if (!isOncePerStep(action)) return [...phase].reduce((sum, letter) => sum + phaseLatency(letter), 0)
    const key = `${phase} ${stage}`
    if (counted.has(key)) return 0
    counted.add(key)
    return 1
  })
}
