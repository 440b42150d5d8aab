import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseStrictJson, type StrictJson } from './strictJson.ts'

const parse = (text: string): StrictJson =>
  parseStrictJson(text, ({ kind, message, offset }) => new Error(`${kind} at ${offset}: ${message}`))

function plain(value: StrictJson): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, inner]) => [key, plain(inner)]))
  return Array.isArray(value) ? value.map(plain) : value
}

/** fast-check's objects have no duplicate keys; `__proto__` is left to its own test. */
const documents = fc.json({ maxDepth: 4 }).filter((text) => !text.includes('__proto__'))

describe('parseStrictJson', () => {
  test('agrees with JSON.parse on every document', () => {
    fc.assert(
      fc.property(documents, fc.constantFrom(0, 2), (compact, indent) => {
        const text = JSON.stringify(JSON.parse(compact), null, indent)
        expect(plain(parse(text))).toEqual(JSON.parse(text))
      }),
    )
  })

  test('refuses whatever JSON.parse refuses', () => {
    fc.assert(
      fc.property(
        documents,
        fc.nat(),
        fc.constantFrom('', ',', '"', '}', '0', '\\', '\u0001', 'x'),
        (text, at, junk) => {
          const position = at % (text.length + 1)
          const mutated = text.slice(0, position) + junk + text.slice(position + 1)
          try {
            JSON.parse(mutated)
          } catch {
            expect(() => parse(mutated)).toThrow(/syntax|duplicate/)
          }
        },
      ),
    )
  })

  test('refuses a key given twice, where JSON.parse silently takes the last', () => {
    expect(() => parse('{"a":1, "b":{"c":1,"\\u0063":2}}')).toThrow(
      'duplicate at 19: the key "c" is given twice',
    )
  })

  test('treats __proto__ as any other key', () => {
    expect(parse('{"__proto__":1}')).toEqual(new Map([['__proto__', 1]]))
  })

  test.each([
    ['', /found the end/],
    ['[1] x', /expected the end, found "x"/],
    ['\ufeff{}', /expected a value/],
    ['[01]', /expected a value/],
    ['[.5]', /expected a value/],
    ['{"a":1,}', /expected a key in quotes/],
    [`[${'9'.repeat(100)}]`, /a number is longer than 64 characters/],
    ['["\\ud800"]', /half a surrogate pair/],
    ['["a', /does not end/],
    ['['.repeat(100_000), /nesting is deeper than 32/],
  ])('refuses %s', (text, message) => {
    expect(() => parse(text)).toThrow(message)
  })
})
