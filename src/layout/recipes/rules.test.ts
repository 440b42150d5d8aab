import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseLayout } from '../text.ts'
import { applyRules, matchesGlob } from './rules.ts'
import type { PlacementRule } from './settings.ts'

const layout = (match: string, text: string, keep = false): PlacementRule => ({
  match,
  place: { kind: 'layout', layout: parseLayout(text) },
  keep,
})
const axis = (name: string, over: string[], match: string | null = null): PlacementRule => ({
  match,
  place: { kind: 'axis', axis: name, over },
  keep: false,
})

describe('matchesGlob', () => {
  it('takes * for any characters, and no other character for more than itself', () => {
    expect(matchesGlob('model.layers.*.mlp.up_proj.weight', 'model.layers.31.mlp.up_proj.weight')).toBe(true)
    expect(matchesGlob('*.up_proj.*', 'model.layers.31.mlp.up_proj.weight')).toBe(true)
    expect(matchesGlob('model.layers.*', 'model.layers')).toBe(false)
    expect(matchesGlob('h.1', 'h.11')).toBe(false)
    expect(matchesGlob('h.1', 'hx1')).toBe(false)
  })

  it('agrees with a regular expression', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 })
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 }), (glob, text) => {
        const pattern = new RegExp(`^${glob.replaceAll('*', '.*')}$`)
        expect(matchesGlob(glob, text)).toBe(pattern.test(text))
      }),
    )
  })
})

describe('applyRules', () => {
  const parts = { tensor: ['tensor.kv', 'tensor.group'], context: [], expert: ['data.expert'] }

  it('lets later rules win: a layout says all dims, a logical axis its own', () => {
    const value = { name: 'h.0.up', axes: ['mlp', 'embed'] }
    const dims = (...rules: PlacementRule[]) => applyRules(rules, parts, value)?.dims
    expect(dims()).toBeUndefined()
    expect(dims(axis('heads', ['tensor']), layout('h.1.*', '[tensor | .]'))).toBeUndefined()
    expect(dims(axis('mlp', ['tensor']))).toEqual([['tensor.kv', 'tensor.group'], undefined])
    expect(dims(axis('mlp', ['tensor']), layout('h.*', '[. | expert]'))).toEqual([[], ['data.expert']])
    expect(dims(layout('h.*', '[. | expert]'), axis('mlp', ['context', 'tensor.kv']))).toEqual([
      ['tensor.kv'],
      ['data.expert'],
    ])
    expect(dims(axis('mlp', ['tensor'], 'h.1.*'))).toBeUndefined()
  })

  it('carries terms, what varies, and what is kept', () => {
    const rules = [layout('x', '[.] partial sum tensor varying expert', true), axis('embed', ['expert'])]
    expect(applyRules(rules, parts, { name: 'x', axes: ['embed'] })).toEqual({
      dims: [['data.expert']],
      partial: { 'tensor.kv': 'sum', 'tensor.group': 'sum' },
      varying: ['data.expert'],
      keep: true,
      rule: 1,
    })
  })
})
