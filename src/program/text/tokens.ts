import type { MeshwrightError } from '../../base/index.ts'

/** Lexical form of the text of programs, shared by printer and parser. */
export type TokenKind = 'name' | 'string' | 'number' | 'id' | 'punctuation' | 'end'

export interface Token {
  readonly kind: TokenKind
  readonly text: string
  /** From 1, both. */
  readonly line: number
  readonly column: number
}

const name =
  '(?:all-reduce|reduce-scatter|all-gather|all-to-all)(?![\\w.])|[A-Za-z_](?:[\\w@]|\\.(?=\\w))*(?:\\(\\d+(?:,\\d+)*\\))?'
const patterns: readonly (readonly [TokenKind, RegExp])[] = [
  ['name', new RegExp(name, 'y')],
  ['number', /(?:0|[1-9]\d*)(?!\w)/y],
  ['id', /#(?:0|[1-9]\d*)(?!\w)/y],
  ['string', /"(?:[^"\\]|\\.)*"/y],
  ['punctuation', /->|\+=|\.\.|[[\]{}():=,;|%*/+-]/y],
]
const bareName = new RegExp(`^(?:${name})$`)

/** Words that begin or divide statements: a thing of such a name is quoted. */
const reserved: ReadonlySet<string> = new Set(
  (
    'program work channel mesh devices stream group task role buffer slot at read write graph kernel ' +
    'run send recv exchange all-reduce reduce-scatter all-gather all-to-all move free in out to from over for'
  ).split(' '),
)

/** A name as the text has it: bare where that is unambiguous, quoted as in JSON elsewhere. */
export function printName(text: string): string {
  return bareName.test(text) && !reserved.has(text) ? text : JSON.stringify(text)
}

/** Whether the line goes on with the statement of the line before it. */
export function continues(line: string): boolean {
  return /^[ \t]*(?:->|\||;|for[ \t])/.test(line)
}

/** The tokens of one line, without its comment. A `#` before a digit is an id (`#12`), any other begins a comment. */
export function tokenize(
  text: string,
  line: number,
  fail: (message: string, at: { line: number; column: number }, hint?: string) => MeshwrightError,
): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < text.length; ) {
    const character = text[at]!
    if (character === ' ' || character === '\t' || character === '\r') {
      at++
      continue
    }
    if (character === '#' && !/\d/.test(text[at + 1] ?? '')) break
    const token = tokenAt(text, line, at)
    if (token === undefined) {
      const shown = /^#?\w{0,20}/.exec(text.slice(at))![0] || character
      const hint = character === '#' ? 'a comment begins with "# "' : undefined
      throw fail(`unexpected ${JSON.stringify(shown)}`, { line, column: at + 1 }, hint)
    }
    tokens.push(token)
    at += token.text.length
  }
  return tokens
}

function tokenAt(text: string, line: number, at: number): Token | undefined {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    if (found !== undefined) return { kind, text: found, line, column: at + 1 }
  }
  return undefined
}
