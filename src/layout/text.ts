import { MeshwrightError } from '../base/index.ts'
import { makeLayout } from './layout.ts'
import { axisNamePattern } from './mesh.ts'
import type { Layout, PartialReduction } from './types.ts'

const reductions: readonly PartialReduction[] = ['sum', 'max', 'mean']

/**
 * `[data, context | tensor.row | .] partial sum expert varying data.replica`: a group for each dim, its axes outermost first,
 * `.` for a dim that is not sharded; `[]` for a scalar. After it what is partial, by reduction, and what varies.
 */
export function printLayout({ dims, partial, varying }: Layout): string {
  const groups = dims.map((axes) => (axes.length === 0 ? '.' : axes.join(', ')))
  const parts = [`[${groups.join(' | ')}]`]
  for (const reduce of reductions) {
    const axes = Object.keys(partial).filter((axis) => partial[axis] === reduce)
    if (axes.length > 0) parts.push(`partial ${reduce} ${axes.sort().join(', ')}`)
  }
  if (varying.length > 0) parts.push(`varying ${[...varying].sort().join(', ')}`)
  return parts.join(' ')
}

interface Token {
  readonly text: string
  /** From 1. */
  readonly column: number
}

/**
 * The inverse of `printLayout`. White space is free, a dim may be left empty instead of `.` where there are several, and
 * `partial` and `varying` may come in any order. Throws MeshwrightError `LAYOUT_SYNTAX` with the column.
 */
export function parseLayout(text: string): Layout {
  const reader = new Reader(text)
  reader.expect('[', 'a layout begins with "["')
  const dims = readDims(reader)
  const partial: Record<string, PartialReduction> = {}
  const varying: string[] = []
  for (;;) {
    const token = reader.next()
    if (token.text === '') return makeLayout(dims, { partial, varying })
    if (token.text === 'partial') {
      const word = reader.next()
      const reduce = reductions.find((name) => name === word.text)
      if (reduce === undefined) throw reader.wrong(word, 'sum, max or mean')
      for (const { text: axis, column } of readNames(reader)) {
        if (partial[axis] !== undefined) throw syntaxError(`${axis} is partial twice`, column)
        partial[axis] = reduce
      }
    } else if (token.text === 'varying') varying.push(...readNames(reader).map(({ text: axis }) => axis))
    else throw reader.wrong(token, '"partial", "varying" or the end')
  }
}

/** Groups up to and with the `]`. */
function readDims(reader: Reader): string[][] {
  if (reader.peek().text === ']') {
    reader.next()
    return []
  }
  const dims: string[][] = []
  for (;;) {
    const first = reader.peek().text
    if (first === '.') {
      reader.next()
      dims.push([])
    } else dims.push(first === '|' || first === ']' ? [] : readNames(reader).map(({ text }) => text))
    const token = reader.next()
    if (token.text === ']') return dims
    if (token.text !== '|') throw reader.wrong(token, '",", "|" or "]"')
  }
}

/** One name or more, with commas between. */
function readNames(reader: Reader): Token[] {
  const names: Token[] = []
  for (;;) {
    const token = reader.next()
    if (!axisNamePattern.test(token.text)) throw reader.wrong(token, 'the name of an axis')
    names.push(token)
    if (reader.peek().text !== ',') return names
    reader.next()
  }
}

class Reader {
  private readonly tokens: readonly Token[]
  private at = 0

  constructor(text: string) {
    const tokens: Token[] = []
    for (const match of text.matchAll(/[A-Za-z_][\w.-]*|[^\s]/g))
      tokens.push({ text: match[0], column: match.index + 1 })
    tokens.push({ text: '', column: text.length + 1 })
    this.tokens = tokens
  }

  peek(): Token {
    return this.tokens[this.at]!
  }

  next(): Token {
    const token = this.peek()
    if (token.text !== '') this.at++
    return token
  }

  expect(text: string, message: string): void {
    const token = this.next()
    if (token.text !== text) throw syntaxError(message, token.column)
  }

  wrong({ text, column }: Token, expected: string): MeshwrightError {
    return syntaxError(`expected ${expected}, got ${text === '' ? 'the end' : JSON.stringify(text)}`, column)
  }
}

function syntaxError(message: string, column: number): MeshwrightError {
  return new MeshwrightError('LAYOUT_SYNTAX', message, {
    at: { column },
    hint: 'a layout is written like [data, context | tensor | .] partial sum expert',
  })
}
