import { MeshwrightError } from '../../base/index.ts'
import { scheduleLimits } from '../actions.ts'

/** Longest cell, blanks included; the longest action pair has under 40 characters. */
const maximumCell = 128
/** Idle cells cost memory nowhere, but time. */
const maximumCells = 2 * scheduleLimits.actions

export interface Cell {
  /** Without blanks and quotes around it; '' in an idle cell. */
  readonly text: string
  readonly line: number
  /** Of the first character of `text`, from 1. */
  readonly column: number
}

/** What can be complained about: a place in the file. */
export type CellPlace = Pick<Cell, 'line' | 'column'>

/**
 * Reads rows and cells one by one, as Python's `csv` splits them, without taking the text apart first. Quotes are read
 * around a whole cell only.
 */
export class CellReader {
  private readonly text: string
  private readonly file: string | undefined
  private at = 0
  private line = 0
  private lineStart = 0
  private cells = 0
  private inRow = false

  constructor(text: string, file: string | undefined) {
    this.text = text
    this.file = file
    if (text.length > scheduleLimits.characters)
      throw new MeshwrightError('SCHEDULE_CSV', `a schedule of ${text.length} characters is too long`, {
        at: file === undefined ? {} : { file },
        hint: `at most ${scheduleLimits.characters} characters are read`,
      })
    if (text.startsWith('\uFEFF'))
      this.fail(
        { line: 1, column: 1 },
        'the file starts with a byte order mark, which PyTorch takes for a part of the first cell',
        'save it as UTF-8 without one',
      )
  }

  fail(place: CellPlace, message: string, hint?: string): never {
    const { line, column } = place
    throw new MeshwrightError('SCHEDULE_CSV', message, {
      at: { ...(this.file === undefined ? {} : { file: this.file }), line, column },
      ...(hint === undefined ? {} : { hint }),
    })
  }

  /** Goes to the next row, if there is one. */
  nextRow(): boolean {
    if (this.at >= this.text.length) return false
    this.line++
    this.lineStart = this.at
    this.inRow = true
    return true
  }

  /** Where the reader stands. */
  place(): CellPlace {
    return { line: Math.max(1, this.line), column: this.at - this.lineStart + 1 }
  }

  /** The next cell of the row; undefined after its last. A row that has no character has no cell. */
  nextCell(): Cell | undefined {
    if (!this.inRow) return undefined
    const start = this.at
    if (start === this.lineStart && this.atRowEnd()) {
      this.endRow()
      return undefined
    }
    if (++this.cells > maximumCells)
      this.fail(this.place(), `more than ${maximumCells} cells`, 'a schedule has few idle cells')
    const cell = this.text[start] === '"' ? this.quotedCell() : this.plainCell()
    if (this.text[this.at] === ',') this.at++
    else this.endRow()
    return cell
  }

  private plainCell(): Cell {
    const start = this.at
    while (this.text[this.at] !== ',' && !this.atRowEnd()) this.advance(start)
    return this.trimmed(start, this.at)
  }

  private quotedCell(): Cell {
    const start = this.at++
    while (this.text[this.at] !== '"') {
      if (this.atRowEnd()) this.fail(this.place(), 'the quote is not closed', 'end the cell with "')
      this.advance(start)
    }
    const cell = this.trimmed(start + 1, this.at++)
    if (this.text[this.at] !== ',' && !this.atRowEnd())
      this.fail(this.place(), 'there is text after the closing quote', 'quote whole cells, or none')
    return cell
  }

  private advance(start: number): void {
    if (++this.at - start > maximumCell)
      this.fail(
        { line: this.line, column: start - this.lineStart + 1 },
        `a cell of more than ${maximumCell} characters`,
        'a cell holds one action, such as 2F0',
      )
  }

  private trimmed(from: number, to: number): Cell {
    if (from === to) return { text: '', line: this.line, column: from - this.lineStart + 1 }
    const raw = this.text.slice(from, to)
    const text = raw.replace(/^[ \t]+|[ \t]+$/g, '')
    const column = from - this.lineStart + 1 + (text === '' ? 0 : raw.indexOf(text))
    return { text, line: this.line, column }
  }

  private atRowEnd(): boolean {
    const code = this.at < this.text.length ? this.text.charCodeAt(this.at) : 10
    return code === 10 || code === 13
  }

  private endRow(): void {
    if (this.text[this.at] === '\r' && this.text[this.at + 1] === '\n') this.at++
    this.at++
    this.inRow = false
  }
}

/** Where cell `index` (idle ones not counted) of a row stands; both from 0. */
export function findPlace(text: string, row: number, index: number): CellPlace {
  const reader = new CellReader(text, undefined)
  for (let at = 0; reader.nextRow(); at++) {
    let left = index
    for (let cell = reader.nextCell(); cell !== undefined; cell = reader.nextCell())
      if (at === row && cell.text !== '' && left-- === 0) return cell
  }
  return { line: row + 1, column: 1 }
}
