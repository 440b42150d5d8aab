import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { tinyProgram } from '../../../test/support/programs.ts'
import { type Edit, edited } from '../../../test/support/programText.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 2 })
const alone = tinyProgram({ stages: 1, microbatches: 2 }, { gradients: true })

describe('terms', () => {
  it.each([
    ['loss', / sum over data(?= +#)/g, /reduce +all-reduce \S+ sum loss over data/g],
    ['gradients', /(?<=owned) sum over data/g, /reduce +all-reduce \S+ sum g\d\S+ over data/g],
    ['a tied weight', / sum over tied\(0,1\)/g, /reduce +all-reduce \S+ sum g\d\S+ over tied\(0,1\)/g],
  ])('of the %s are found without the word of the program', (_, word, reduction) => {
    expect(codes(edited(base, [word, ''], [reduction, '']))).toEqual(['SUM_UNDECLARED'])
  })

  it('lie on all ranks that hold the tensor', () => {
    const data: readonly Edit[] = [
      [/ sum over tied\(0,1\)/g, ' sum over data'],
      [/(all-reduce \S+ sum g\d\S+) over tied\(0,1\)/g, '$1 over data'],
    ]
    expect(codes(edited(base, ...data))).toEqual(['SUM_UNDECLARED'])
    const { findings } = verifyProgram(edited(base, ...data))
    expect(findings[0]!.message).toContain('all 4 ranks at pipeline=0, 1')
    expect(codes(edited(base, [/group data: data/, 'group data: pipeline, data']))).toContain(
      'SUM_UNDECLARED',
    )
  })

  it('are no copies: what every rank has whole is not added', () => {
    const reduced = edited(base, [
      /(forward +send \S+ x0\[0\])/,
      'reduce all-reduce #900 sum x0[0] over data\n  $1',
    ])
    expect(codes(reduced)).toEqual(['SUM_WHOLE'])
    const clip = edited(base, [/(compute +run U0 )/, 'reduce all-reduce #900 sum clipFactor over data\n  $1'])
    expect(codes(clip)).toEqual(['SUM_WHOLE'])
    // Nor where the program calls them terms.
    const said = edited(
      base,
      [/(buffer clipFactor: +f64\[\] +(?:x \d+|with \w+))/, '$1 sum over data'],
      [/(compute +run U0 )/, 'reduce all-reduce #900 sum clipFactor over data\n  $1'],
    )
    expect(codes(said)).toContain('SUM_WHOLE')
  })

  it('are all there before the sum is read, also on one rank', () => {
    const early = edited(
      alone,
      [/\n {2}store +move out g0 -> gradients/, ''],
      [/(\n {2}compute +run FB0 tokens\[1\])/, '\n  store move out g0 -> gradients$1'],
    )
    expect(codes(early)).toEqual(['SUM_LATE'])
  })
})
