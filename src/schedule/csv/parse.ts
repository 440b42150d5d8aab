import { entryActions, scheduleLimits } from '../actions.ts'
import type { Schedule, ScheduleEntry } from '../types.ts'
import { quote, readCell } from './action.ts'
import { type Cell, type CellPlace, CellReader } from './cells.ts'
import { type CsvLetters, computePart, isCommunication } from './letters.ts'
import { translateLetters } from './translate.ts'

export type CsvDialect = 'compute' | 'communication'

export interface ScheduleCsv {
  /** Computations and idle cells only, or communication too and no idle cell. */
  readonly dialect: CsvDialect
  /** What the file was written in; `schedule` is in today's letters. */
  readonly letters: CsvLetters
  /** The computations, without idle cells. */
  readonly schedule: Schedule
  /** All of a communication file, in the order of its cells; see `verifyCommunication`. */
  readonly communication?: Schedule
}

/**
 * Reads PyTorch's schedule file, one row for each actor (its pipeline rank), as `torch.distributed.pipelining` 2.13 reads
 * it, but for what it accepts by mistake: text after an action, letters of 2024, and stages or rows left out are
 * refused or, the letters, translated. Whether the schedule makes sense is for `validateSchedule` and
 * `verifyCommunication`.
 *
 * @throws MeshwrightError `SCHEDULE_CSV` with line and column
 */
export function parseScheduleCsv(
  text: string,
  options: { readonly file?: string; readonly dialect?: CsvDialect | 'auto' } = {},
): ScheduleCsv {
  const reader = new CellReader(text, options.file)
  const rows = readRows(reader, options.dialect ?? 'auto')
  const { letters, schedule } = translateLetters(rows.schedule, text, reader)
  return rows.dialect === 'compute'
    ? { dialect: 'compute', letters, schedule }
    : { dialect: 'communication', letters, schedule: computePart(schedule), communication: schedule }
}

function readRows(
  reader: CellReader,
  wanted: CsvDialect | 'auto',
): { readonly dialect: CsvDialect; readonly schedule: Schedule } {
  const actors: ScheduleEntry[][] = []
  const owners = new StageOwners(reader)
  let idle: CellPlace | undefined
  let communication: Cell | undefined
  let actions = 0
  let microbatches = 1
  while (reader.nextRow()) {
    const start = reader.place()
    const actor = actors.length
    if (actor === scheduleLimits.actors) reader.fail(start, `more than ${scheduleLimits.actors} rows`)
    const entries: ScheduleEntry[] = []
    for (let cell = reader.nextCell(); cell !== undefined; cell = reader.nextCell()) {
      if (cell.text === '') idle ??= cell
      else {
        const entry = readCell(reader, cell)
        if (isCommunication(entry)) communication ??= cell
        if (wanted === 'compute' && communication !== undefined)
          reader.fail(
            cell,
            `${quote(cell.text)} is communication, in a file of computations only`,
            "PyTorch would load it as format 'compute_comms'",
          )
        for (const action of entryActions(entry)) {
          if (++actions > scheduleLimits.actions)
            reader.fail(cell, `more than ${scheduleLimits.actions} actions`)
          owners.add(action.stage, actor, cell)
          microbatches = Math.max(microbatches, action.microbatch + 1)
        }
        entries.push(entry)
      }
      if (idle !== undefined && (communication !== undefined || wanted === 'communication'))
        refuseIdle(reader, idle, communication)
    }
    if (entries.length === 0)
      reader.fail(
        start,
        `row ${actor + 1} has no action`,
        'each row is a rank and each rank has a stage; leave out blank rows, at the end too',
      )
    actors.push(entries)
  }
  if (actors.length === 0)
    reader.fail({ line: 1, column: 1 }, 'the file is empty', 'each row lists the actions of a rank: 0F0,0B0')
  const placement = owners.placement()
  const dialect = wanted === 'auto' ? (communication === undefined ? 'compute' : 'communication') : wanted
  return { dialect, schedule: { stages: placement.length, microbatches, placement, actors } }
}

function refuseIdle(reader: CellReader, idle: CellPlace, communication: Cell | undefined): never {
  const because =
    communication === undefined
      ? ''
      : `, as ${quote(communication.text)} (line ${communication.line}, column ${communication.column}) makes this one`
  return reader.fail(
    idle,
    `an idle cell in a file with communication${because}`,
    'PyTorch refuses those: leave the cell out',
  )
}

/** Which row has which stage. */
class StageOwners {
  private readonly reader: CellReader
  private readonly owners: ({ readonly actor: number; readonly cell: Cell } | undefined)[] = []

  constructor(reader: CellReader) {
    this.reader = reader
  }

  add(stage: number, actor: number, cell: Cell): void {
    const owner = this.owners[stage]
    if (owner === undefined) this.owners[stage] = { actor, cell }
    else if (owner.actor !== actor)
      this.reader.fail(
        cell,
        `${quote(cell.text)} puts stage ${stage} on row ${actor + 1}, but ${quote(owner.cell.text)} (line ${owner.cell.line}, column ${owner.cell.column}) has it on row ${owner.actor + 1}`,
        'a stage has one rank',
      )
  }

  /** Actor of each stage, all stages up to the highest being there. */
  placement(): number[] {
    const highest = this.owners.length - 1
    return Array.from(this.owners, (owner, stage) => {
      if (owner === undefined)
        return this.reader.fail(
          this.owners[highest]!.cell,
          `${quote(this.owners[highest]!.cell.text)} is of stage ${highest}, but stage ${stage} is in no row`,
          'stages are numbered from 0, and each has a row',
        )
      return owner.actor
    })
  }
}
