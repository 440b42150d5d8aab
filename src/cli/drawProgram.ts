import type { ResolvedPlan } from '../plan/index.ts'
import { arenaBytes, type Program, readInstruction, rolesByRank } from '../program/index.ts'
import { type Action, drawTimeline, type ScheduleTiming, sameAction } from '../schedule/index.ts'
import { playProgram, unitCosts } from '../simulate/index.ts'
import { formatBytes } from './format.ts'
import { rankPlace } from './ranks.ts'
import { paintPhase } from './style.ts'

/**
 * The program as ranks x time, in units of one forward, each rank with its place and its memory. Communication takes no
 * time here; what it makes others wait for is what the blanks are.
 */
export function drawProgram(plan: ResolvedPlan, program: Program, width: number = terminalWidth()): string[] {
  const roles = rolesByRank(program)
  const entries: ScheduleTiming['entries'][number][] = []
  const times = playProgram(program, unitCosts(), { ranksInFull: Number.POSITIVE_INFINITY })
  for (const { rank, base, plan } of times.network.ranks)
    for (let index = 0; index < plan.length; index++) {
      const [start, end] = [times.start[base + index]!, times.end[base + index]!]
      const action = end > start ? actionAt(roles[rank]!, index) : undefined
      if (action !== undefined) entries.push({ actor: rank, index, actions: [action], start, end })
    }
  entries.sort((a, b) => a.actor - b.actor || a.start - b.start)
  const drawn = joinPieces(entries)
  const makespan = drawn.reduce((latest, { end }) => Math.max(latest, end), 0)
  const digits = String(roles.length - 1).length
  const lines = drawTimeline(
    { actors: roles.length, entries: drawn, makespan, busy: [], peakInFlight: [], peakActivations: [] },
    {
      maximumWidth: width - 12,
      paint: paintPhase,
      rowName: (rank) => `rank ${String(rank).padStart(digits)} (${rankPlace(plan, rank)})`,
    },
  )
  const memory = ['memory', ...roles.map((role) => formatBytes(arenaBytes(role)))]
  const longest = Math.max(...memory.map((text) => text.length))
  return lines.map((line, row) => `${memory[row]!.padStart(longest)}  ${line}`)
}

/** Runs of one action, one right after the other, as one: entries by actor and start. */
function joinPieces(entries: readonly ScheduleTiming['entries'][number][]): ScheduleTiming['entries'] {
  const joined: ScheduleTiming['entries'][number][] = []
  for (const entry of entries) {
    const before = joined.at(-1)
    const isNext = before?.actor === entry.actor && entry.start <= before.end
    if (isNext && sameAction(before.actions[0]!, entry.actions[0]!))
      joined[joined.length - 1] = { ...before, end: entry.end }
    else joined.push(entry)
  }
  return joined
}

function actionAt(role: Program['roles'][number], index: number): Action | undefined {
  const instruction = readInstruction(role.code, index)
  return instruction.kind === 'run' && instruction.action !== undefined
    ? role.actions[instruction.action]
    : undefined
}

function terminalWidth(): number {
  return process.stdout.columns ?? 120
}
