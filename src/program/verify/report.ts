import { readInstruction } from '../columns.ts'
import { roleRanks } from '../mesh.ts'
import { formatInstruction } from '../text/instruction.ts'
import type { Program } from '../types.ts'
import type { CycleEdge, Finding, InstructionPlace } from './finding.ts'

export interface ReportOptions {
  /** Called for what should stand out (marked cells); default: as it is. */
  readonly mark?: (text: string) => string
  /** Cells shown before and after each marked place. */
  readonly around?: number
}

/** A finding as lines: what, where, the circle if there is one, the ranks' lists around it, what would fix it. */
export function formatFinding(program: Program, finding: Finding, options: ReportOptions = {}): string[] {
  const where =
    finding.ranks.length === 0
      ? ''
      : ` [rank${finding.ranks.length === 1 ? '' : 's'} ${finding.ranks.join(', ')}]`
  const lines = [`${finding.code}: ${finding.message}${where}`]
  if (finding.cycle !== undefined) lines.push(...formatCycle(program, finding.cycle))
  else
    for (const place of finding.places.slice(0, 4))
      lines.push(`  at ${placeName(program, place)}: ${placeText(program, place)}`)
  if (finding.places.length > 0) lines.push(...drawAround(program, finding, options))
  lines.push(`  fix: ${finding.fix}`)
  return lines
}

function formatCycle(program: Program, cycle: readonly CycleEdge[]): string[] {
  const reasons = {
    order: 'which stands before, in its stream,',
    data: 'whose memory is then used by',
    meets: 'which must be there for',
  }
  return cycle.flatMap(({ from, to, why }, index) => {
    const previous = cycle[(index + cycle.length - 1) % cycle.length]!.to
    const same =
      previous.role === from.role && previous.rank === from.rank && previous.instruction === from.instruction
    const start = same
      ? []
      : [`  ${index === 0 ? '  ' : '= '}${placeName(program, from)}: ${placeText(program, from)}`]
    return [...start, `    ${reasons[why]}`, `    ${placeName(program, to)}: ${placeText(program, to)}`]
  })
}

function placeName(program: Program, place: InstructionPlace): string {
  const who = place.rank === undefined ? (program.roles[place.role]?.name ?? '?') : `rank ${place.rank}`
  return `${who} #${place.instruction}`
}

function placeText(program: Program, place: InstructionPlace): string {
  const role = program.roles[place.role]
  return role === undefined ? '?' : formatInstruction(program, role, place.instruction)
}

/** One row a rank: its instructions around the marked ones, as short cells. */
function drawAround(
  program: Program,
  finding: Finding,
  { mark = (text) => text, around = 4 }: ReportOptions,
): string[] {
  const byRank = new Map<number, Set<number>>()
  const roleOf = new Map<number, number>()
  for (const place of finding.places) {
    const rank = place.rank ?? roleRanks(program.mesh, program.roles[place.role]!)[0]!
    roleOf.set(rank, place.role)
    const marked = byRank.get(rank) ?? new Set<number>()
    byRank.set(rank, marked.add(place.instruction))
  }
  return [...byRank]
    .sort(([a], [b]) => a - b)
    .map(([rank, marked]) => {
      const role = program.roles[roleOf.get(rank)!]!
      const cells: string[] = []
      let last = -1
      for (let index = 0; index < role.code.length; index++) {
        if (![...marked].some((place) => Math.abs(place - index) <= around)) continue
        const cell = cellOf(program, role, index)
        if (cell === undefined) continue
        if (index > last + 1 && last >= 0 && cells.at(-1) !== '…') cells.push('…')
        cells.push(marked.has(index) ? mark(`[${cell}]`) : cell)
        last = index
      }
      return `  rank ${String(rank).padStart(2)} | ${cells.join(' ')}`
    })
}

/** `F3`, `B0` for actions, `→7` and `←7` for transfers, `Σ9` for collectives. Frees have no cell. */
export function cellOf(program: Program, role: Program['roles'][number], index: number): string | undefined {
  const instruction = readInstruction(role.code, index)
  switch (instruction.kind) {
    case 'run': {
      const action = instruction.action === undefined ? undefined : role.actions[instruction.action]
      return action === undefined
        ? (program.tasks[instruction.task]?.name ?? '?')
        : `${action.phase}${action.microbatch}`
    }
    case 'exchange':
      return instruction.parts
        .map((part) => `${part.direction === 'send' ? '→' : '←'}${part.transfer}`)
        .join('')
    case 'collective':
      return `Σ${instruction.collective}`
    case 'move':
    case 'free':
      return undefined
  }
}
