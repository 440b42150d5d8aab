import { didYouMean, MeshwrightError } from '../../base/index.ts'
import { continues, type Token, tokenize } from './tokens.ts'

/** Longest text that is read, in characters. */
const maximumLength = 1 << 26
const maximumName = 200

/** Statements one after the other, and the tokens of the one at hand. Every complaint says line and column. */
export class TextReader {
  private readonly lines: readonly string[]
  private readonly file: string | undefined
  /** Lines that the statement at hand and those before it take. */
  private line = 0
  private tokens: Token[] = []
  private next = 0
  private ended = false

  constructor(text: string, file: string | undefined) {
    this.file = file
    if (text.length > maximumLength)
      throw this.failAt(`the text has more than ${maximumLength} characters`, { line: 1, column: 1 })
    this.lines = text.split('\n')
    this.advance()
  }

  /** Whether there is no statement any more. */
  get done(): boolean {
    return this.ended
  }

  /** Goes to the next statement: a line that holds something, and the lines that continue it. */
  advance(): void {
    this.tokens = []
    this.next = 0
    while (this.tokens.length === 0) {
      if (this.line === this.lines.length) {
        this.ended = true
        return
      }
      this.readLine()
    }
    while (this.line < this.lines.length && continues(this.lines[this.line]!)) this.readLine()
  }

  /** Takes the lines after the statement at hand as long as `belongs` says so, as they are. */
  rawLines(belongs: (line: string) => boolean): string[] {
    const from = this.line
    while (this.line < this.lines.length && belongs(this.lines[this.line]!)) this.line++
    return this.lines.slice(from, this.line)
  }

  peek(ahead = 0): Token {
    const token = this.tokens[this.next + ahead]
    if (token !== undefined) return token
    const last = this.tokens.at(-1)
    const column = last === undefined ? 1 : last.column + last.text.length
    return { kind: 'end', text: '', line: last?.line ?? Math.max(1, this.line), column }
  }

  take(): Token {
    const token = this.peek()
    if (token.kind !== 'end') this.next++
    return token
  }

  /** Takes the token if it is this word or sign. */
  accept(text: string): boolean {
    const token = this.peek()
    if (token.text !== text || token.kind === 'string') return false
    this.take()
    return true
  }

  expect(text: string, hint?: string): void {
    if (!this.accept(text)) throw this.fail(`expected "${text}", found ${this.found()}`, this.peek(), hint)
  }

  /** The end of the statement; goes to the next one. */
  end(): void {
    if (this.peek().kind !== 'end') throw this.fail(`unexpected ${this.found()}`, this.peek())
    this.advance()
  }

  /** A name, bare or in quotes. */
  name(what: string): string {
    const token = this.take()
    if (token.text.length > maximumName)
      throw this.fail(`a name of ${token.text.length} characters`, token, `it has at most ${maximumName}`)
    if (token.kind === 'name') return token.text
    if (token.kind !== 'string') throw this.fail(`expected ${what}, found ${show(token)}`, token)
    try {
      return JSON.parse(token.text) as string
    } catch {
      throw this.fail(`${token.text.slice(0, 60)} is not a string as JSON has it`, token)
    }
  }

  /** The index of a declared name. */
  known(what: string, names: ReadonlyMap<string, number>): number {
    const at = this.peek()
    const name = this.name(what)
    const index = names.get(name)
    if (index !== undefined) return index
    throw this.fail(
      `there is no ${what} ${JSON.stringify(name)}`,
      at,
      suggest(name, [...names.keys()].slice(0, 1000)),
    )
  }

  word<T extends string>(allowed: readonly T[], what: string): T {
    const token = this.take()
    const found = token.kind === 'string' ? undefined : allowed.find((word) => word === token.text)
    if (found !== undefined) return found
    throw this.fail(`expected ${what}, found ${show(token)}`, token, suggest(token.text, allowed))
  }

  /** A whole number from `minimum` to `maximum`. */
  number(what: string, maximum: number = Number.MAX_SAFE_INTEGER, minimum = 0): number {
    const token = this.take()
    if (token.kind !== 'number') throw this.fail(`expected ${what}, found ${show(token)}`, token)
    return this.inRange(token, Number(token.text), what, maximum, minimum)
  }

  /** `#12` */
  id(what: string): number {
    const token = this.take()
    if (token.kind !== 'id')
      throw this.fail(`expected ${what}, found ${show(token)}`, token, 'it is written as in #12')
    return this.inRange(token, Number(token.text.slice(1)), what, 2 ** 31 - 1, 0)
  }

  /** Items between commas. */
  list<T>(item: () => T): T[] {
    const items = [item()]
    while (this.accept(',')) items.push(item())
    return items
  }

  fail(
    message: string,
    at: { readonly line: number; readonly column: number },
    hint?: string,
  ): MeshwrightError {
    return this.failAt(message, at, hint)
  }

  private inRange(token: Token, value: number, what: string, maximum: number, minimum: number): number {
    if (value >= minimum && value <= maximum) return value
    throw this.fail(`${what} is ${token.text.slice(0, 20)}`, token, `it is from ${minimum} to ${maximum}`)
  }

  private found(): string {
    return show(this.peek())
  }

  private readLine(): void {
    this.line++
    const tokens = tokenize(this.lines[this.line - 1]!, this.line, (message, at, hint) =>
      this.failAt(message, at, hint),
    )
    for (const token of tokens) this.tokens.push(token)
  }

  private failAt(message: string, at: { line: number; column: number }, hint?: string): MeshwrightError {
    const { line, column } = at
    const place = this.file === undefined ? { line, column } : { file: this.file, line, column }
    return new MeshwrightError(
      'PROGRAM_TEXT',
      message,
      hint === undefined ? { at: place } : { at: place, hint },
    )
  }
}

function show(token: Token): string {
  return token.kind === 'end' ? 'the end of the line' : JSON.stringify(token.text.slice(0, 60))
}

function suggest(word: string, names: readonly string[]): string | undefined {
  const near = didYouMean(word, names)
  if (near !== undefined || names.length === 0) return near
  const shown = names.slice(0, 12).join(', ')
  return names.length > 12 ? `there are ${shown}, …` : `it is one of ${shown}`
}
