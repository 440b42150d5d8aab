import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { tinyProgram } from '../../../test/support/programs.ts'
import { edited } from '../../../test/support/programText.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 2 })

describe('norm', () => {
  it('misses elements that nobody counts', () => {
    const { findings } = verifyProgram(edited(base, [/sumSquares g0\{0:184\}/, 'sumSquares g0{0:144}']))
    expect(findings).toMatchObject([{ code: 'NORM_MISSING', ranks: [0, 1] }])
    expect(findings[0]!.message).toMatch(/^transformer\.h\.0\.ln_1\.weight and \d+ more in g0 of pipeline=0/)
  })

  it('refuses elements that are counted twice, here or on the stage that owns them', () => {
    const line = /(compute +run sumSquares g0\{0:184\} owner -> sumOfSquares)/
    expect(codes(edited(base, [line, '$1\n  $1 +=']))).toEqual(['NORM_REPEATED'])
    expect(codes(edited(base, [/sumSquares g1\{32:176\}/, 'sumSquares g1{0:176}']))).toContain(
      'NORM_REPEATED',
    )
    expect(codes(edited(base, [/sumSquares g0\{0:184\}/, 'sumSquares w0[t]']))).toContain('NORM_REPEATED')
  })

  it('refuses an owner that is none, or several', () => {
    expect(codes(edited(base, [/constant data=0/, 'constant pipeline=0']))).toEqual(['NORM_OWNER'])
    expect(codes(edited(base, [/constant data=0/, 'constant']))).toEqual(['NORM_OWNER'])
    expect(codes(edited(base, [/(sumSquares \S+) owner/, '$1 learningRate']))).toContain('NORM_OWNER')
  })

  it('is a sum over all ranks', () => {
    const apart = edited(
      base,
      [/ sum over all/g, ''],
      [/reduce +all-reduce \S+ sum sumOfSquares over all/g, ''],
    )
    expect(codes(apart)).toEqual(['SUM_UNDECLARED'])
    expect(
      codes(
        edited(
          base,
          [/ sum over all/g, ' sum over data'],
          [/sumOfSquares over all/g, 'sumOfSquares over data'],
        ),
      ),
    ).toContain('SUM_UNDECLARED')
  })
})
