import type { MeshwrightError } from '../base/index.ts'

/** Lexical form of the text of graphs, shared by printer and parser. */
export type TokenKind = 'value' | 'number' | 'word' | 'string' | 'punctuation' | 'end'

export interface Token {
  readonly kind: TokenKind
  readonly text: string
  /** From 1. */
  readonly column: number
}

const patterns: readonly (readonly [TokenKind, RegExp])[] = [
  ['value', /%\d+/y],
  ['number', /(?:-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Infinity)|NaN)(?![\w.])/y],
  ['word', /[A-Za-z_][\w.-]*/y],
  ['string', /"(?:[^"\\]|\\.)*"/y],
  ['punctuation', /[[\](),:=@-]/y],
]

/** A name as the text has it: bare where that is unambiguous, quoted as in JSON elsewhere. */
export function printName(name: string): string {
  const bare = /^[A-Za-z_][\w.-]*$/.test(name) && name !== 'Infinity' && name !== 'NaN'
  return bare ? name : JSON.stringify(name)
}

export function printNumber(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

/** The tokens of one line, without its comment (`#` to the end); the last is of kind `end`. */
export function tokenize(
  line: string,
  fail: (message: string, column: number) => MeshwrightError,
): readonly Token[] {
  const tokens: Token[] = []
  let at = 0
  for (;;) {
    while (line[at] === ' ' || line[at] === '\t' || line[at] === '\r') at++
    if (at >= line.length || line[at] === '#') {
      tokens.push({ kind: 'end', text: 'the end of the line', column: at + 1 })
      return tokens
    }
    const token = tokenAt(line, at)
    if (token === undefined) throw fail(`unexpected ${JSON.stringify(line[at])}`, at + 1)
    tokens.push(token)
    at += token.text.length
  }
}

function tokenAt(line: string, at: number): Token | undefined {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at
    const text = pattern.exec(line)?.[0]
    if (text !== undefined) return { kind, text, column: at + 1 }
  }
  return undefined
}
