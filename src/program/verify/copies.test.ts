import { describe, expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { drop, replace, withInstructions } from '../../../test/support/programs.ts'
import { edited } from '../../../test/support/programText.ts'
import { tensorProgram } from '../../../test/support/tensorParallel.ts'
import { isInPlace } from '../accesses.ts'
import { readInstructions } from '../columns.ts'
import { verifyProgram } from './index.ts'

const base = tensorProgram({ data: 2, tensor: 2 })
const collectives = readInstructions(base.roles[0]!.code).flatMap((item, index) =>
  item.kind === 'collective' ? [{ index, id: item.collective, inPlace: item.parts.every(isInPlace) }] : [],
)

describe('a step with tensor parallelism', () => {
  it.each([
    [1, 1],
    [2, 1],
    [1, 2],
    [2, 2],
    [3, 4],
  ])('has no findings over data=%i, tensor=%i', (data, tensor) => {
    const { findings, skipped } = verifyProgram(tensorProgram({ data, tensor }))
    expect(findings).toEqual([])
    expect(skipped).toEqual(['memory'])
  })

  it.each(collectives)('needs each of its collectives: #$id', ({ index }) => {
    const found = codes(withInstructions(base, 0, (list) => drop(list, index)))
    expect(found).toContain('SUM_MISSING')
  })

  // Then only where values come from tells.
  it.each([
    ['t0.0', '#1', '#11'],
    ['t0.2', '#2', '#12'],
    ['t0.4', '#3', '#13'],
  ])('needs them also where it does not say that %s is terms', (name, ...ids) => {
    const word: [RegExp, string] = [new RegExp(`(buffer ${name}: .*) sum over tensor`), '$1']
    expect(codes(edited(base, word))).toEqual(['SUM_WHOLE'])
    const without = ids.map((id): [RegExp, string] => [new RegExp(`\\n *tensor +all-reduce ${id} .*`), ''])
    const broken = edited(base, word, ...without)
    expect(codes(broken)).toEqual(['COPY_DIFFERS'])
    const messages = verifyProgram(broken).findings.map(({ message }) => message)
    expect(messages.join()).toContain('different on ranks along tensor, which hold the same of it')
  })

  it('adds each term once, over exactly the ranks that have one', () => {
    const again = edited(base, [/(tensor +all-reduce #2 )(.*)/, '$1$2\n  tensor all-reduce #99 $2'])
    expect(codes(again)).toEqual(['SUM_TWICE', 'SUM_WHOLE'])
    expect(codes(edited(base, [/(all-reduce #2 .*) over tensor/, '$1 over data']))).toContain('SUM_GROUP')
    expect(codes(edited(base, [/all-reduce #2 sum/, 'all-reduce #2 max']))).toContain('SUM_GROUP')
    // Over all at once other samples are mixed in.
    expect(codes(edited(base, [/(all-reduce #2 .*) over tensor/, '$1 over all']))).toContain('SUM_GROUP')
  })

  it('adds no copies', () => {
    const added = edited(base, [
      /(compute +run FB0\.2 )/,
      'tensor all-reduce #99 sum lossScale over tensor\n  $1',
    ])
    expect(codes(added)).toContain('SUM_WHOLE')
    expect(codes(edited(base, [/over data(?=\n.*#31)/, 'over all']))).toContain('SUM_GROUP')
  })

  it('sums gradients in one go, or along one axis after the other', () => {
    const apart = edited(
      base,
      [/(at \d+: s \[2\] owned) sum over data/, '$1 sum over all'],
      [/reduce +all-reduce #30 sum g0 over data/, 'reduce all-reduce #30 sum g0{0:12} over data\n  $&.'],
      [
        /reduce +all-reduce #30 sum g0 over data\./,
        'reduce all-reduce #33 sum g0{12:14} over data\n  tensor all-reduce #34 sum g0{12:14} over tensor',
      ],
    )
    // The scale's gradient is whole on every rank along tensor: adding it is one too many.
    expect(codes(apart)).toEqual(['SUM_WHOLE'])
    const missing = edited(apart, [/\n *tensor +all-reduce #34 .*/, ''])
    expect(codes(missing)).toEqual(['SUM_MISSING'])
    const whole = edited(base, [
      /(at \d+: a \[2, 4\] block \[2, 4\/tensor\] owned) sum over data/,
      '$1 sum over all',
    ])
    expect(codes(whole)).toContain('SUM_UNDECLARED')
  })

  it('counts what is cut on all ranks along the axes, and the rest on one', () => {
    expect(codes(edited(base, [/g0\{0:12\} ownerOfBlocks/, 'g0{0:12} owner']))).toEqual(['NORM_OWNER'])
    expect(codes(edited(base, [/g0\{12:14\} owner/, 'g0{12:14} ownerOfBlocks']))).toContain('NORM_OWNER')
    const { findings } = verifyProgram(edited(base, [/g0\{0:12\} ownerOfBlocks/, 'g0{0:12} owner']))
    expect(findings[0]!.message).toContain('does not count wte ')
    // Clipped by other factors, ranks would part.
    const apart = edited(
      base,
      [/(buffer sumOfSquares: .*) sum over all/, '$1 sum over data'],
      [/sum sumOfSquares over all/, 'sum sumOfSquares over data'],
    )
    expect(codes(apart)).toContain('COPY_DIFFERS')
    expect(codes(apart)).toContain('SUM_UNDECLARED')
  })

  it('gives and leaves what ranks have the same', () => {
    const odd = edited(
      base,
      [/buffer owner: +f64\[\] +x 1 constant data=0, tensor=0/, '$&\n  buffer part: f64[] constant tensor=0'],
      [/(run FB0\.2 .*) lossScale/g, '$1 part'],
    )
    expect(codes(odd)).toContain('COPY_DIFFERS')
  })
})

describe('parts of an action', () => {
  it('are all done, each once, for every micro-batch', () => {
    const once = edited(base, [/( *compute +run FB0\.1 t0\.0\[1\][^\n]*for FB stage 0 m1)/, '$1\n$1'])
    expect(codes(once)).toContain('ACTION_REPEATED')
    const list = readInstructions(base.roles[0]!.code)
    const part = list.findIndex((item) => item.kind === 'run' && base.tasks[item.task]!.name === 'FB0.3')
    expect(codes(withInstructions(base, 0, (all) => drop(all, part)))).toContain('ACTION_MISSING')
    const run = list.findLastIndex((item) => item.kind === 'run' && base.tasks[item.task]!.name === 'FB0.1')
    const swapped = withInstructions({ ...base, tasks: [...base.tasks, base.tasks[1]!] }, 0, (all) =>
      replace(all, run, (item) => ({ ...item, task: base.tasks.length }) as typeof item),
    )
    expect(codes(swapped)).toContain('BINDING_TASK')
  })
})
