import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { tinyProgram } from '../../../test/support/programs.ts'
import { type Edit, edited } from '../../../test/support/programText.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 2 }, { gradients: true })

describe('ports', () => {
  const cases: readonly (readonly [string, string, readonly Edit[]])[] = [
    [
      'a port into another buffer',
      'PORT_BUFFER',
      [[/in learningRate -> learningRate/, 'in correction1 -> learningRate']],
    ],
    [
      'a result from another buffer',
      'PORT_BUFFER',
      [[/out gradientNorm -> gradientNorm/, 'out gradientNorm -> loss']],
    ],
    ['no gradients', 'PORT_BUFFER', [[/out g0 -> gradients/, 'out w0[t] -> gradients']]],
    [
      'a clip factor of its own on one stage, given on the other',
      'PORT_MADE',
      [
        [
          /(?<=role pipeline=1[\s\S]*?)\S+ +run clip [^;]*; free sumOfSquares gradientNorm/,
          'load move in clipFactor -> clipFactor\n  free sumOfSquares',
        ],
      ],
    ],
    ['a norm that is not given', 'PORT_MISSING', [[/store +move out gradientNorm -> gradientNorm ;/, '']]],
    ['a loss that is given twice', 'PORT_REPEATED', [[/(store +move out loss -> loss) ;/, '$1\n  $1 ;']]],
    ['gradients of one stage alone', 'PORT_MISSING', [[/store +move out g1 -> gradients/, '']]],
    ['gradients given twice', 'PORT_REPEATED', [[/(store +move out g1 -> gradients)/, '$1\n  $1']]],
  ]
  it.each(cases)('refuse %s', (_, code, edits) => {
    expect(codes(edited(base, ...edits))).toContain(code)
  })

  it('ask all replicas alike', () => {
    const split = tinyProgram({ stages: 2, data: [2, 3], microbatches: 1 })
    expect(codes(split)).toEqual([])
    const other = edited(split, [/(role pipeline=1 data%3=1[\s\S]*?)store +move out loss -> loss ;/, '$1'])
    expect(codes(other)).toContain('PORT_MISSING')
  })
})
