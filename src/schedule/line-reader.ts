import { didYouMean, MeshwrightError } from '../base/index.ts'

/** Lines that hold anything, one after the other, without splitting the whole text at once. */
export class LineReader {
  private readonly text: string
  private readonly file: string | undefined
  private offset = 0
  private number = 0

  constructor(text: string, file: string | undefined) {
    this.text = text
    this.file = file
  }

  maybe(): Line | undefined {
    while (this.offset < this.text.length) {
      const newline = this.text.indexOf('\n', this.offset)
      const end = newline < 0 ? this.text.length : newline
      const raw = this.text.slice(this.offset, end)
      this.offset = end + 1
      this.number++
      const line = new Line(raw, this.number, this.file)
      if (!line.atEnd()) return line
    }
    return undefined
  }

  next(example: string): Line {
    return this.maybe() ?? this.failAtEnd(`the text ends where "${example}" is due`)
  }

  failAtEnd(message: string, hint?: string): never {
    return new Line('', Math.max(1, this.number), this.file).fail(message, hint)
  }
}

/** One line, read token by token; every complaint says line and column. */
export class Line {
  private readonly text: string
  private readonly line: number
  private readonly file: string | undefined
  private at = 0

  constructor(text: string, number: number, file: string | undefined) {
    const comment = text.indexOf('#')
    this.text = comment < 0 ? text : text.slice(0, comment)
    this.line = number
    this.file = file
  }

  fail(message: string, hint?: string, column: number = this.column()): never {
    throw new MeshwrightError('SCHEDULE_TEXT', message, {
      at: { ...(this.file === undefined ? {} : { file: this.file }), line: this.line, column },
      ...(hint === undefined ? {} : { hint }),
    })
  }

  /** Column of what comes next, from 1. */
  column(): number {
    this.skipSpace()
    return this.at + 1
  }

  atEnd(): boolean {
    this.skipSpace()
    return this.at >= this.text.length
  }

  end(): void {
    if (!this.atEnd()) this.fail(`unexpected ${this.quoteRest()}`)
  }

  /** Returns the column of the keyword. */
  keyword(keyword: string): number {
    const column = this.column()
    const word = this.word()
    if (word !== keyword)
      this.fail(
        `expected "${keyword}", got ${word === '' ? this.quoteRest() : `"${word}"`}`,
        didYouMean(word, [keyword]),
        column,
      )
    return column
  }

  /** The letters that come next; '' if there are none. */
  word(): string {
    this.skipSpace()
    const start = this.at
    while (/[A-Za-z]/.test(this.text[this.at] ?? '') && this.at - start < 32) this.at++
    return this.text.slice(start, this.at)
  }

  accept(symbol: string, adjacent = false): boolean {
    if (!adjacent) this.skipSpace()
    if (this.text[this.at] !== symbol) return false
    this.at++
    return true
  }

  expect(symbol: string): void {
    if (!this.accept(symbol)) this.fail(`expected "${symbol}", got ${this.quoteRest()}`)
  }

  positive(what: string, maximum: number): number {
    const column = this.column()
    const value = this.number(what, maximum)
    if (value === 0) this.fail(`${what} is 0`, `${what} is at least 1`, column)
    return value
  }

  /** A whole number from 0 to `maximum`, written without leading zeros. */
  number(what: string, maximum: number, adjacent = false): number {
    if (!adjacent) this.skipSpace()
    const start = this.at
    while (/[0-9]/.test(this.text[this.at] ?? '') && this.at - start < 17) this.at++
    const digits = this.text.slice(start, this.at)
    if (digits === '') this.fail(`expected ${what}, got ${this.quoteRest()}`, undefined, start + 1)
    if (digits.length > 1 && digits.startsWith('0'))
      this.fail(`${what} is written ${digits}`, 'numbers have no leading zeros', start + 1)
    const value = Number(digits)
    if (value > maximum) this.fail(`${what} is ${digits}`, `it is at most ${maximum}`, start + 1)
    return value
  }

  private skipSpace(): void {
    while (/[ \t\r]/.test(this.text[this.at] ?? '')) this.at++
  }

  private quoteRest(): string {
    const rest = this.text.slice(this.at, this.at + 12)
    return rest === '' ? 'the end of the line' : JSON.stringify(rest)
  }
}
