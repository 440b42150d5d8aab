import type { ResolvedPlan } from '../plan/index.ts'
import { arenaBytes, type Program, readInstruction, rolesByRank, timeProgram } from '../program/index.ts'
import { type Action, drawTimeline, type ScheduleTiming } from '../schedule/index.ts'
import { formatBytes } from './format.ts'
import { paintPhase } from './style.ts'

/**
 * The program as ranks x time, in units of one forward, each rank with its place and its memory. Communication takes no
 * time here; what it makes others wait for is what the blanks are.
 */
export function drawProgram(plan: ResolvedPlan, program: Program, width: number = terminalWidth()): string[] {
  const roles = rolesByRank(program)
  const entries: ScheduleTiming['entries'][number][] = []
  for (const { rank, instruction, start, end } of timeProgram(program)) {
    const action = end > start ? drawnAction(program, roles[rank]!, instruction) : undefined
    if (action !== undefined) entries.push({ actor: rank, index: instruction, actions: [action], start, end })
  }
  const makespan = entries.reduce((latest, { end }) => Math.max(latest, end), 0)
  const digits = String(roles.length - 1).length
  const lines = drawTimeline(
    { actors: roles.length, entries, makespan, busy: [], peakInFlight: [] },
    {
      maximumWidth: width - 12,
      paint: paintPhase,
      rowName: (rank) => {
        const { pipeline, data } = plan.ranks[rank]!
        return `rank ${String(rank).padStart(digits)} (pipeline ${pipeline}, data ${data})`
      },
    },
  )
  const memory = ['memory', ...roles.map((role) => formatBytes(arenaBytes(role)))]
  const longest = Math.max(...memory.map((text) => text.length))
  return lines.map((line, row) => `${memory[row]!.padStart(longest)}  ${line}`)
}

/** An update has an action of its own in the drawing, once a rank. */
function drawnAction(program: Program, role: Program['roles'][number], index: number): Action | undefined {
  const instruction = readInstruction(role.code, index)
  if (instruction.kind !== 'run') return undefined
  if (instruction.action !== undefined) return role.actions[instruction.action]
  const name = program.tasks[instruction.task]?.name ?? ''
  return /^U\d+$/.test(name) ? { phase: 'U', stage: role.pipeline, microbatch: 0 } : undefined
}

function terminalWidth(): number {
  return process.stdout.columns ?? 120
}
