/** JSON as the text says it: objects are maps, so that no key is special. */
export type StrictJson =
  | null
  | boolean
  | number
  | string
  | readonly StrictJson[]
  | ReadonlyMap<string, StrictJson>

/** Why a text was refused, and at which UTF-16 offset. */
export interface StrictJsonProblem {
  readonly kind: 'syntax' | 'duplicate'
  readonly message: string
  readonly offset: number
}

const deepest = 32
const longestNumber = 64

/**
 * Parses JSON that may be hostile. Unlike `JSON.parse` it refuses a key given twice (which of the two holds is
 * anyone's guess, and two readers may guess differently), strings that are not well-formed Unicode, and deep nesting.
 * A problem becomes the error that `refuse` makes of it.
 */
export function parseStrictJson(text: string, refuse: (problem: StrictJsonProblem) => Error): StrictJson {
  let position = 0

  function fail(message: string, offset = position, kind: StrictJsonProblem['kind'] = 'syntax'): never {
    throw refuse({ kind, message, offset })
  }

  function skipSpace(): void {
    for (;;) {
      const code = text.charCodeAt(position)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      position++
    }
  }

  function take(character: string, where: string): void {
    if (text[position] !== character) fail(`expected "${character}" ${where}, found ${here()}`)
    position++
  }

  function here(): string {
    return position < text.length ? JSON.stringify(text[position]) : 'the end'
  }

  function value(depth: number): StrictJson {
    if (depth > deepest) fail(`nesting is deeper than ${deepest}`)
    skipSpace()
    const character = text[position]
    if (character === '{') return object(depth)
    if (character === '[') return list(depth)
    if (character === '"') return string()
    for (const [word, meaning] of words) {
      if (text.startsWith(word, position)) {
        position += word.length
        return meaning
      }
    }
    return number()
  }

  function object(depth: number): ReadonlyMap<string, StrictJson> {
    const result = new Map<string, StrictJson>()
    position++
    skipSpace()
    if (text[position] === '}') {
      position++
      return result
    }
    for (;;) {
      skipSpace()
      const start = position
      if (text[position] !== '"') fail(`expected a key in quotes, found ${here()}`)
      const key = string()
      if (result.has(key)) fail(`the key ${quoted(key)} is given twice`, start, 'duplicate')
      skipSpace()
      take(':', 'after a key')
      result.set(key, value(depth + 1))
      skipSpace()
      if (text[position] !== ',') break
      position++
    }
    take('}', 'at the end of an object')
    return result
  }

  function list(depth: number): readonly StrictJson[] {
    const result: StrictJson[] = []
    position++
    skipSpace()
    if (text[position] === ']') {
      position++
      return result
    }
    for (;;) {
      result.push(value(depth + 1))
      skipSpace()
      if (text[position] !== ',') break
      position++
    }
    take(']', 'at the end of a list')
    return result
  }

  function string(): string {
    const start = position++
    let escapes = false
    for (;;) {
      const code = text.charCodeAt(position)
      if (code === 0x22) break
      if (Number.isNaN(code)) fail('a string does not end', start)
      if (code < 0x20) fail('a string holds a control character')
      if (code === 0x5c) {
        escapes = true
        position++
      }
      position++
    }
    position++
    if (!escapes) return text.slice(start + 1, position - 1)
    let result: string
    try {
      result = JSON.parse(text.slice(start, position)) as string
    } catch {
      fail('a string holds an unknown escape', start)
    }
    if (/\p{Surrogate}/u.test(result)) fail('a string holds half a surrogate pair', start)
    return result
  }

  function number(): number {
    const start = position
    while (
      position < text.length &&
      position - start <= longestNumber &&
      '+-.eE0123456789'.includes(text[position]!)
    ) {
      position++
    }
    const digits = text.slice(start, position)
    if (digits.length > longestNumber) fail(`a number is longer than ${longestNumber} characters`, start)
    if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(digits)) {
      position = start
      fail(`expected a value, found ${here()}`)
    }
    return Number(digits)
  }

  const result = value(0)
  skipSpace()
  if (position < text.length) fail(`expected the end, found ${here()}`)
  return result
}

const words: readonly (readonly [string, null | boolean])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
]

/** A name from a file, in quotes, escaped and shortened so that it cannot spoil a message. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > 120 ? `${name.slice(0, 119)}…` : name)
}

/** What kind of thing a value is, for messages. */
export function describeJson(value: StrictJson | undefined): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'string') return `the string ${quoted(value)}`
  if (typeof value === 'object') return 'an object'
  return String(value)
}
