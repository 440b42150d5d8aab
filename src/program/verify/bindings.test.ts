import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { tinyProgram } from '../../../test/support/programs.ts'
import { type Edit, edited } from '../../../test/support/programText.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 2 }, { gradients: true })
/** Two middle stages, which share their tasks. */
const four = tinyProgram({ stages: 4, microbatches: 2, tied: false })

it('what lowering makes is accepted, also where stages share tasks', () => {
  expect(codes(base)).toEqual([])
  expect(codes(four)).toEqual([])
  const shared = four.tasks.filter(({ name }) => /^[FB][12]$/.test(name))
  expect(shared.map(({ name }) => name)).toEqual(['F1', 'B1'])
})

describe('a run on another micro-batch is refused:', () => {
  const cases: readonly (readonly [string, readonly Edit[]])[] = [
    ['F of m1 reads the tokens of m0', [[/run F0 tokens\[1\]/, 'run F0 tokens[0]']]],
    ['B of m1 reads the tokens of m0', [[/run B0 tokens\[1\]/, 'run B0 tokens[0]']]],
    ['B of m1 reads residuals of m0', [[/d\.x0\[1\] r0\.0\.\.4\[1\] w0/, 'd.x0[1] r0.0..4[0] w0']]],
    ['B of m1 takes the cotangent of m0', [[/run B0 tokens\[1\] d\.x0\[1\]/, 'run B0 tokens[1] d.x0[0]']]],
    ['FB of m1 has the labels of m0', [[/run FB1 x0\[1\] labels\[1\]/, 'run FB1 x0[1] labels[0]']]],
    [
      'the labels of actions are exchanged',
      [
        [/for F stage 0 m0/, 'for F stage 0 m@'],
        [/for F stage 0 m1/, 'for F stage 0 m0'],
        [/m@/, 'm1'],
      ],
    ],
    ['tokens of no micro-batch', [[/run F0 tokens\[1\]/, 'run F0 tokens']]],
  ]
  it.each(cases)('%s', (_, edits) => {
    expect(codes(edited(base, ...edits))).toContain('BINDING_MICROBATCH')
  })

  it('says what, where and for which action', () => {
    const { findings } = verifyProgram(edited(base, [/run F0 tokens\[1\]/, 'run F0 tokens[0]']))
    expect(findings.find(({ code }) => code === 'BINDING_MICROBATCH')).toMatchObject({
      message: expect.stringMatching(
        /^"run F0 tokens\[0\] .*" \(F stage 0 m1\) of pipeline=0 has tokens\[0\] as its tokens$/,
      ),
      fix: expect.stringContaining('name tokens[1]'),
      stage: 0,
      microbatch: 1,
      ranks: [0, 1],
    })
  })
})

describe('a run on another buffer is refused:', () => {
  const cases: readonly (readonly [string, readonly Edit[]])[] = [
    ['learning rate and clip factor', [[/learningRate clipFactor m0/, 'clipFactor learningRate m0']]],
    ['moments written', [[/-> w0\[t\+1\](\S+) m0(\S+) v0/, '-> w0[t+1]$1 v0$2 m0']]],
    [
      'moments everywhere',
      [[/m0\[t\](\S+) v0\[t\](.*\n.*)m0\[t\+1\](\S+) v0\[t\+1\]/g, 'v0[t]$1 m0[t]$2v0[t+1]$3 m0[t+1]']],
    ],
    ['the loss scale', [[/labels\[1\] lossScale w1/, 'labels[1] clipFactor w1']]],
    ['corrections', [[/correction1 correction2$/m, 'correction2 correction1']]],
    ['the norm', [[/-> sumOfSquares$/m, '-> gradientNorm']]],
    ['results', [[/-> gradientNorm clipFactor/, '-> clipFactor gradientNorm']]],
  ]
  it.each(cases)('%s', (_, edits) => {
    expect(codes(edited(base, ...edits))).toContain('BINDING_BUFFER')
  })

  it('residuals in another order, for all micro-batches', () => {
    const other = edited(four, [/r1\.0\.\.4(\[[01]\]) w1/g, 'r1.0$1 r1.1$1 r1.2$1 r1.4$1 r1.3$1 w1'])
    expect(codes(other)).toContain('BINDING_BUFFER')
  })

  it('ids of rows', () => {
    const one = tinyProgram({ stages: 1, microbatches: 2 })
    expect(codes(one)).toEqual([])
    expect(codes(edited(one, [/rows0 by operand 0/, 'rows0 by operand 1']))).toEqual(['BINDING_BUFFER'])
  })
})

describe('tensors of packs', () => {
  it('are read and their gradients put where the pack has them', () => {
    for (const prefix of ['', 'g.']) {
      const [weight, bias] = ['weight', 'bias'].map((name) => `${prefix}transformer.h.0.ln_1.${name}`)
      const other = edited(
        base,
        [new RegExp(`(at \\d+: )${weight}`, 'g'), '$1@'],
        [new RegExp(`(at \\d+: )${bias}`, 'g'), `$1${weight}`],
        [/(at \d+: )@/g, `$1${bias}`],
      )
      // With the names of the pack exchanged as well, gradients and parameters part.
      expect(codes(other)).toContain('BINDING_TENSOR')
    }
  })

  it('of a shared task are the ones of one block', () => {
    const other = edited(
      four,
      [/(at \d+: )transformer\.h\.2\.ln_1\.weight( \[4\])/g, '$1@$2'],
      [/(at \d+: )transformer\.h\.2\.ln_2\.weight( \[4\])/g, '$1transformer.h.2.ln_1.weight$2'],
      [/(at \d+: )@/g, '$1transformer.h.2.ln_2.weight'],
    )
    expect(codes(other)).toContain('BINDING_TENSOR')
  })

  it('lie alike in parameters, gradients and moments', () => {
    expect(codes(edited(base, [/at 0: adam\.m\.\S+/, 'at 0: adam.m.other']))).toContain('PACK_LAYOUT')
    expect(codes(edited(base, [/at 0: adam\.m\.(\S+)/, 'at 0: adam.v.$1']))).toContain('PACK_LAYOUT')
  })
})

it('versions and regions of an update are those of its operands', () => {
  expect(
    codes(edited(base, [/run U0 w0\[t\]\{0:144\} g0\{0:144\}/, 'run U0 w0[t]{0:144} g0{40:184}'])),
  ).toContain('BINDING_REGION')
  expect(codes(edited(base, [/run U0 w0\[t\]/, 'run U0 w0[t+1]']))).toContain('BINDING_VERSION')
  const cut = edited(base, [/\{0:144\}/g, '{40:184}'], [/\{144:184\}/g, '{0:40}'])
  expect(codes(cut)).toContain('BINDING_REGION')
})

it('every micro-batch of a stage runs the same task', () => {
  const at = four.tasks.findIndex(({ name }) => name === 'F1')
  const copy = { ...four.tasks[at]!, name: 'F1.again' }
  const other = edited({ ...four, tasks: [...four.tasks, copy] }, [/run F1 x0\[1\]/, 'run F1.again x0[1]'])
  expect(codes(other)).toContain('BINDING_TASK')
})
