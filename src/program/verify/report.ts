import { readInstruction } from '../columns.ts'
import { roleRanks } from '../mesh.ts'
import { formatInstruction } from '../text/instruction.ts'
import type { Instruction, Program, Role } from '../types.ts'
import { type CycleEdge, type Finding, type InstructionPlace, rankList } from './finding.ts'

export interface ReportOptions {
  /** Called for what should stand out (marked cells); default: as it is. */
  readonly mark?: (text: string) => string
  /** Cells shown before and after each marked place. */
  readonly around?: number
}

/** Places and ranks that are shown of a finding that has many. */
const shownPlaces = 4
const shownRanks = 8

/** A finding as lines: what, where, the circle if there is one, the ranks' lists around it, what would fix it. */
export function formatFinding(program: Program, finding: Finding, options: ReportOptions = {}): string[] {
  const { code, message, ranks, places, cycle, fix } = finding
  const named = ranks.length === 0 || message.startsWith('rank') ? '' : ` [${rankList(ranks)}]`
  const lines = [`${code}: ${message}${named}`]
  if (cycle !== undefined) lines.push(...formatCycle(program, cycle))
  else {
    lines.push(...places.slice(0, shownPlaces).map((place) => `  at ${placeText(program, place)}`))
    if (places.length > shownPlaces) lines.push(`  and ${places.length - shownPlaces} more`)
  }
  if (places.length > 0) lines.push(...drawAround(program, finding, options))
  lines.push(`  fix: ${fix}`)
  return lines
}

/** The circle from place to place: what each rank does before what, and how that meets the next rank. */
function formatCycle(program: Program, cycle: readonly CycleEdge[]): string[] {
  const lines: string[] = []
  cycle.forEach((edge, index) => {
    const before = cycle[index - 1]?.to
    if (before === undefined || !samePlace(before, edge.from)) {
      if (before !== undefined) lines.push(`    ${meets(program, before)}`)
      lines.push(`  ${placeText(program, edge.from)}`)
    }
    lines.push(`    ${reason(program, edge)}`, `  ${placeText(program, edge.to)}`)
  })
  const [first, last] = [cycle[0]?.from, cycle.at(-1)?.to]
  if (first === undefined || last === undefined) return lines
  return samePlace(first, last)
    ? [...lines, '    where the circle closes']
    : [
        ...lines,
        `    ${meets(program, last)}`,
        `  ${placeText(program, first)}`,
        '    where the circle closes',
      ]
}

function reason(program: Program, { from, to, why }: CycleEdge): string {
  switch (why) {
    case 'order': {
      const [a, b] = [from, to].map((place) => instructionAt(program, place))
      const streams = [a, b].map((item) =>
        item === undefined || item.kind === 'free' ? '' : (program.streams[item.stream]?.name ?? ''),
      )
      const where = streams[0] === streams[1] ? `on stream ${streams[0]}` : 'in the order of issue'
      return `and only after it, ${where}:`
    }
    case 'data':
      return 'and only after it, in the same memory:'
    case 'meets':
      return 'whose message is received by:'
    case 'slot':
      return 'which makes room on the channel for:'
  }
}

/** How an instruction happens together with one of another rank. */
function meets(program: Program, place: InstructionPlace): string {
  const instruction = instructionAt(program, place)
  if (instruction?.kind === 'collective')
    return `which waits for all members of collective #${instruction.collective}:`
  if (instruction?.kind !== 'exchange') return 'which happens together with:'
  const ids = [...new Set(instruction.parts.map((part) => `#${part.transfer}`))].join(', ')
  return `which waits for the other end of ${ids}:`
}

function samePlace(a: InstructionPlace, b: InstructionPlace): boolean {
  return a.role === b.role && a.rank === b.rank && a.instruction === b.instruction
}

function instructionAt(program: Program, place: InstructionPlace): Instruction | undefined {
  const code = program.roles[place.role]?.code
  return code === undefined || place.instruction >= code.length
    ? undefined
    : readInstruction(code, place.instruction)
}

/** `rank 2, instruction 14: send #8 x0[1] to pipeline+1` */
function placeText(program: Program, place: InstructionPlace): string {
  const role = program.roles[place.role]
  const who = place.rank === undefined ? (role?.name ?? '?') : `rank ${place.rank}`
  const text = role === undefined ? '?' : formatInstruction(program, role, place.instruction)
  return `${who}, instruction ${place.instruction}: ${text}`
}

/** One row a rank: its instructions around the marked ones, as short cells. */
function drawAround(
  program: Program,
  finding: Finding,
  { mark = (text) => text, around = 4 }: ReportOptions,
): string[] {
  const rows = new Map<number, { readonly role: Role; readonly marked: Set<number> }>()
  for (const place of finding.places) {
    const role = program.roles[place.role]!
    const rank = place.rank ?? roleRanks(program.mesh, role)[0] ?? 0
    const row = rows.get(rank) ?? { role, marked: new Set() }
    row.marked.add(place.instruction)
    rows.set(rank, row)
  }
  const width = String(Math.max(...rows.keys())).length
  return [...rows]
    .sort(([a], [b]) => a - b)
    .slice(0, shownRanks)
    .map(([rank, { role, marked }]) => {
      const cells = cellsAround(program, role, marked, around).map(({ text, isMarked }) =>
        isMarked ? mark(`[${text}]`) : text,
      )
      return `  rank ${String(rank).padStart(width)} | ${cells.join(' ')}`
    })
}

function cellsAround(
  program: Program,
  role: Role,
  marked: ReadonlySet<number>,
  around: number,
): { readonly text: string; readonly isMarked: boolean }[] {
  const cells: { text: string; isMarked: boolean; index: number }[] = []
  const withStage = hasStages(role)
  for (let index = 0; index < role.code.length; index++) {
    const isMarked = marked.has(index)
    const text =
      cellOf(program, role, index, withStage) ??
      (isMarked ? readInstruction(role.code, index).kind : undefined)
    if (text !== undefined) cells.push({ text, isMarked, index })
  }
  const near = cells.map((_, at) =>
    cells.slice(Math.max(0, at - around), at + around + 1).some(({ isMarked }) => isMarked),
  )
  return cells.flatMap((cell, at): { text: string; isMarked: boolean }[] => {
    if (near[at]) return [cell]
    return near[at + 1] === true || (at === cells.length - 1 && near.includes(true))
      ? [{ text: '…', isMarked: false }]
      : []
  })
}

/** Whether the role works on several stages: its actions are told apart by them. */
function hasStages({ actions }: Role): boolean {
  return actions.some(({ stage }) => stage !== actions[0]?.stage)
}

/** `F3`, `B0` for actions (`2F3` on an actor of several stages), `→7` and `←7` for transfers, `Σ9` for collectives. Moves and frees have no cell. */
export function cellOf(
  program: Program,
  role: Role,
  index: number,
  withStage: boolean = hasStages(role),
): string | undefined {
  const instruction = readInstruction(role.code, index)
  switch (instruction.kind) {
    case 'run': {
      const action = instruction.action === undefined ? undefined : role.actions[instruction.action]
      return action === undefined
        ? (program.tasks[instruction.task]?.name ?? '?')
        : `${withStage ? action.stage : ''}${action.phase}${action.microbatch}`
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
