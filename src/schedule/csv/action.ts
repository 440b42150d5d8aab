import { didYouMean } from '../../base/index.ts'
import { scheduleLimits } from '../actions.ts'
import type { Action, ScheduleEntry } from '../types.ts'
import type { Cell, CellReader } from './cells.ts'
import { computeLetters, isOfStage, stageLetters, transferLetters } from './letters.ts'

/** The letters of 2024 among them. */
const known: readonly string[] = [...computeLetters, 'BW', ...transferLetters, ...stageLetters]
const compute: ReadonlySet<string> = new Set([...computeLetters, 'BW'])
const pairEnd = ')OVERLAP_F_B'

/** Reads a cell that is not idle. What PyTorch would read as the beginning of the text only is refused. */
export function readCell(reader: CellReader, cell: Cell): ScheduleEntry {
  const { text } = cell
  if (!text.startsWith('(')) return readAction(reader, cell)
  const end = text.indexOf(')')
  if (end < 0)
    reader.fail(cell, `${quote(text)} lacks its closing bracket`, 'a pair is written (0F7;7B3)OVERLAP_F_B')
  if (text.slice(end) !== pairEnd)
    reader.fail(
      { ...cell, column: cell.column + end + 1 },
      `${quote(text)} does not end in OVERLAP_F_B`,
      'a pair is written (0F7;7B3)OVERLAP_F_B',
    )
  const parts = text.slice(1, end).split(';')
  if (parts.length !== 2)
    reader.fail(
      cell,
      `${quote(text)} has ${parts.length === 1 ? 'one action' : `${parts.length} actions`}`,
      'two actions overlap: a forward and a backward',
    )
  let column = cell.column + 1
  const [first, second] = parts.map((part) => {
    const inner = part.trim()
    const action = readAction(reader, { ...cell, text: inner, column: column + part.indexOf(inner) })
    column += part.length + 1
    return action
  })
  if (first!.phase !== 'F' || !['B', 'I', 'BW'].includes(second!.phase))
    reader.fail(
      cell,
      `${quote(text)} is no forward with a backward`,
      'OVERLAP_F_B holds a forward, then a backward (B or I)',
    )
  return { pair: [first!, second!] }
}

function readAction(reader: CellReader, cell: Cell): Action {
  const { text } = cell
  const [, stageDigits = '', letters = '', digits = '', rest = ''] = /^(\d*)([A-Za-z_]*)(\d*)(.*)$/s.exec(
    text,
  )!
  const after = (length: number): Cell => ({ ...cell, column: cell.column + length })
  if (stageDigits === '')
    reader.fail(
      cell,
      `${quote(text)} does not begin with a stage`,
      'an action is stage, letter, micro-batch: 2F0',
    )
  const stage = readNumber(reader, cell, stageDigits, 'a stage', scheduleLimits.stages - 1)
  const lettersAt = after(stageDigits.length)
  if (!known.includes(letters))
    reader.fail(
      lettersAt,
      letters === ''
        ? `${quote(text)} has no letter`
        : `${quote(text)}: there is no action ${quote(letters)}`,
      (letters.length < 3 ? undefined : didYouMean(letters, known)) ?? `actions are ${known.join(', ')}`,
    )
  const digitsAt = after(stageDigits.length + letters.length)
  if (rest !== '')
    reader.fail(
      after(text.length - rest.length),
      `${quote(text)} has ${quote(rest)} after the action`,
      `PyTorch would drop it without a word and run ${text.slice(0, text.length - rest.length)}`,
    )
  if (isOfStage(letters)) {
    if (digits !== '')
      reader.fail(digitsAt, `${quote(text)} has a micro-batch`, `${letters} is done for a stage as a whole`)
    return { phase: letters, stage, microbatch: 0 }
  }
  if (digits === '')
    reader.fail(digitsAt, `${quote(text)} has no micro-batch`, 'an action is stage, letter, micro-batch: 2F0')
  const microbatch = readNumber(reader, digitsAt, digits, 'a micro-batch', scheduleLimits.microbatches - 1)
  return { phase: letters, stage, microbatch }
}

/** Whether the letter is one of a computation, as in today's files or in those of 2024. */
export function isComputeLetter(letter: string): boolean {
  return compute.has(letter)
}

function readNumber(
  reader: CellReader,
  place: { readonly line: number; readonly column: number },
  digits: string,
  what: string,
  maximum: number,
): number {
  if (digits.length > 1 && digits.startsWith('0'))
    reader.fail(place, `${what} is written ${quote(digits)}`, 'numbers have no leading zeros')
  const value = Number(digits)
  if (value > maximum) reader.fail(place, `${what} is ${quote(digits)}`, `it is at most ${maximum}`)
  return value
}

export function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}...` : text)
}
