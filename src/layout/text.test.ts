import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { layoutOf, meshes, shapes, uses } from '../../test/support/layouts.ts'
import { makeLayout, parseLayout, printLayout } from './index.ts'

describe('the text of a layout', () => {
  it('has a group for each dim, then what is partial and what varies', () => {
    const partial = { b: 'max', expert: 'sum', a: 'sum' } as const
    const layout = makeLayout([['data', 'context'], ['tensor.row'], []], { partial, varying: ['y', 'x'] })
    expect(printLayout(layout)).toBe(
      '[data, context | tensor.row | .] partial sum a, expert partial max b varying x, y',
    )
    expect(printLayout(makeLayout([]))).toBe('[]')
    expect(printLayout(makeLayout([[]]))).toBe('[.]')
  })

  it('is read back', () => {
    fc.assert(
      fc.property(meshes, shapes, uses(true), (mesh, shape, drawn) => {
        const layout = layoutOf(drawn, shape, mesh)
        const text = printLayout(layout)
        expect(parseLayout(text)).toEqual(layout)
        expect(printLayout(parseLayout(text))).toBe(text)
      }),
    )
  })

  it.each([
    ['[a,b|.|]', '[a, b | . | .]'],
    ['  [ | ] ', '[. | .]'],
    ['[]varying z,a partial max m partial sum s', '[] partial sum s partial max m varying a, z'],
    ['[sum | partial] partial sum varying', '[sum | partial] partial sum varying'],
  ])('%j is %j in its normal form', (text, normal) => {
    expect(printLayout(parseLayout(text))).toBe(normal)
  })

  it.each([
    ['', 1, 'a layout begins with "["'],
    ['data | .]', 1, 'a layout begins with "["'],
    ['[data context]', 7, 'expected ",", "|" or "]", got "context"'],
    ['[data | .', 10, 'expected ",", "|" or "]", got the end'],
    ['[data, | .]', 8, 'expected the name of an axis, got "|"'],
    ['[. . ]', 4, 'expected ",", "|" or "]", got "."'],
    ['[.] partial product a', 13, 'expected sum, max or mean, got "product"'],
    ['[.] partial sum', 16, 'expected the name of an axis, got the end'],
    ['[.] shared a', 5, 'expected "partial", "varying" or the end, got "shared"'],
    ['[.] partial sum a, a', 20, 'a is partial twice'],
    ['[a.]', 2, 'expected the name of an axis, got "a."'],
    ['[2]', 2, 'expected the name of an axis, got "2"'],
  ])('refuses %j at column %i', (text, column, message) => {
    expect(() => parseLayout(text)).toThrow(
      expect.objectContaining({ code: 'LAYOUT_SYNTAX', message, at: { column } }),
    )
  })
})
