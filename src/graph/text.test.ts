import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomModels } from '../../test/support/randomGraphs.ts'
import { tinyGpt } from '../../test/support/tinyGpt.ts'
import { MeshwrightError } from '../base/index.ts'
import { GraphBuilder } from './builder.ts'
import { splitStages } from './stages.ts'
import { differentiateStage } from './tasks.ts'
import { printGraph } from './text.ts'
import { parseGraph } from './textParser.ts'
import type { Graph } from './types.ts'

const small = `graph 1
block h.0
input x0 activation %0: f32[2:batch, 8:]
input weight parameter %1: f32[8] other
input "a b" scalar %2: f32[] -
%3: f32[2:batch, 8:] y, %4: f32[2:batch, 1:] = rmsNorm(%0, %1) epsilon=0.00001 @0
%5: f32[2:batch, 8:] = mul(%3, %2)
output x1 %5
output x1 again? %4
`.replace('x1 again?', '"x1 again?"')

describe('printGraph and parseGraph', () => {
  it('read like this', () => {
    const graph = parseGraph(small)
    expect(printGraph(graph)).toBe(small)
    expect(graph.inputs[1]).toEqual({ name: 'weight', kind: 'parameter', value: 1 })
    expect(graph.values.slice(0, 4)).toEqual([
      { type: { dtype: 'f32', shape: [2, 8], axes: ['batch', ''] }, name: 'x0' },
      { type: { dtype: 'f32', shape: [8] }, name: 'other' },
      { type: { dtype: 'f32', shape: [] } },
      { type: { dtype: 'f32', shape: [2, 8], axes: ['batch', ''] }, name: 'y' },
    ])
    expect(graph.nodes[0]).toEqual({
      op: 'rmsNorm',
      attributes: { epsilon: 0.00001 },
      inputs: [0, 1],
      outputs: [3, 4],
      block: 0,
    })
  })

  it('give back every random model and its tasks', () => {
    fc.assert(
      fc.property(randomModels, ({ graph }) => {
        const pieces = splitStages(
          graph,
          graph.blocks.map(() => 0),
        )
        const { F, B, I, W, FB } = differentiateStage(pieces[0]!)
        for (const each of [graph, F, B, I, W, FB]) expect(parseGraph(printGraph(each))).toEqual(each)
      }),
      { numRuns: 30 },
    )
  })

  it('give back a GPT', () => {
    const sizes = {
      batch: 1,
      sequence: 3,
      hidden: 4,
      heads: 2,
      vocabulary: 5,
      layers: 2,
      dtype: 'f32',
    } as const
    const { graph } = tinyGpt(sizes)
    expect(parseGraph(printGraph(graph))).toEqual(graph)
  })

  it('give back names and numbers of any kind', () => {
    const name = fc.oneof(
      fc.string(),
      fc.constantFrom('', '-', 'NaN', 'Infinity', '@0', 'a b', '"', '\n', '1', 'é'),
    )
    const number = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom(0, -0, 1e21, 5e-324, -1e-7, 2 ** 53),
    )
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 4, maxLength: 4 }), number, ([a, b, c, d], value) => {
        const builder = new GraphBuilder()
        builder.startBlock(a!)
        const x = builder.input(b!, 'state', { dtype: 'f64', shape: [], axes: [] })
        const y = builder.input(c!, 'state', { dtype: 'bool', shape: [1, 0], axes: [d!, b!] })
        const filled = builder.one('fill', [], { shape: [2, 2], dtype: 'f64', value }, d!)
        const shaped = builder.one('reshape', [filled], { shape: [4], axes: [c!] })
        builder.output(a!, builder.one('mul', [shaped, x], {}))
        builder.output(d!, y)
        const graph = builder.build()
        expect(parseGraph(printGraph(graph))).toEqual(graph)
      }),
    )
  })

  it('give back what ranks do together, with null and lists of names', () => {
    const text = `graph 1
input x activation %0: f32[4:batch, 8:]
input start scalar %1: i32[]
%2: f32[4:batch, 2:] = dynamicSlice(%0, %1) dim=1 size=2
%3: f32[12:batch, 2:] = communicate(%2) operation=allGather reduce=null axes=["", tensor.row] members=3 root=0 shift=0
%4: f32[12:batch, 2:] = communicate(%3) operation=reduce reduce=mean axes=[context] members=2 root=1 shift=0 occasion=3 chunk=1
output y %4
`
    const graph = parseGraph(text)
    expect(graph.nodes.map(({ attributes }) => attributes)).toEqual([
      { dim: 1, size: 2 },
      { operation: 'allGather', reduce: null, axes: ['', 'tensor.row'], members: 3, root: 0, shift: 0 },
      {
        operation: 'reduce',
        reduce: 'mean',
        axes: ['context'],
        members: 2,
        root: 1,
        shift: 0,
        occasion: 3,
        chunk: 1,
      },
    ])
    expect(printGraph(graph)).toBe(text)
  })

  it('skip comments and empty lines', () => {
    const spaced = small.replaceAll('\n', '   # %9 = "?\r\n\n')
    expect(parseGraph(spaced)).toEqual(parseGraph(small))
  })
})

/** Where and why a text is refused. */
function refusal(text: string): string {
  try {
    parseGraph(text, 'file.graph')
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    expect(error.code).toBe('GRAPH_TEXT')
    expect(error.at?.file).toBe('file.graph')
    return `${error.at?.line}:${error.at?.column} ${error.message}`
  }
  throw new Error('the text was accepted')
}

describe('parseGraph refuses', () => {
  const head = 'graph 1\nblock b\ninput x activation %0: f32[2, 3]\n'
  it.each([
    ['', '1:1 expected the line `graph 1`'],
    ['graph', '1:6 version the end of the line of graphs'],
    ['graph 2', '1:7 version 2 of graphs is not known'],
    ['graph 1 2', '1:9 unexpected 2'],
    ['graph 1\nnode', '2:1 expected a value'],
    ['graph 1\n;', '2:1 unexpected ";"'],
    ['graph 1\ninput x tensor %0: f32[]', '2:9 expected a kind of input, found tensor'],
    ['graph 1\ninput x data %0: f16[]', '2:18 expected a dtype, found f16'],
    ['graph 1\ninput x data 0: f32[]', '2:14 expected a value such as %0, found 0'],
    ['graph 1\ninput x data %0: f32[-1]', '2:22 expected a whole number'],
    ['graph 1\ninput x data %0: f32[1.5]', '2:22 expected a whole number'],
    ['graph 1\ninput x data %0: f32[2:a, 3]', '2:21 either all dims have a `:` or none'],
    ['graph 1\ninput x data %0: f32[2', '2:23 expected ], found the end of the line'],
    ['graph 1\ninput "\\q" data %0: f32[]', '2:7 "\\q" is not a string'],
    ['graph 1\ninput x data %9999999: f32[]', '2:14 ids of values are below'],
    ['graph 1\ninput x data %1: f32[]', '2:1 value %0 is missing'],
    [`graph 1\ninput x data %0: f32[${'9007199254740991, '.repeat(2)}1]`, '2:21 more than 2^53 elements'],
    [`graph 1\ninput x data %0: f32[${'1, '.repeat(16)}1]`, '2:21 more than 16 dims'],
    [`${head}input x activation %1: f32[]`, '4:7 a second input x'],
    [`${head}input y activation %0: f32[]`, '4:20 %0 is made twice'],
    [`${head}output y %0\noutput y %0`, '5:8 a second output y'],
    [`${head}%1: f32[2, 3] = tanh(%2)`, '4:22 %2 is used before it is made'],
    [`${head}%1: f32[2, 3] = tanh(%1)`, '4:22 %1 is used before it is made'],
    [`${head}%1: f32[2, 3] = tan(%0)`, '4:17 expected an op, found tan'],
    [`${head}%1: f32[2, 3] = toString(%0)`, '4:17 expected an op, found toString'],
    [`${head}%1: f32[2, 3] = tanh(%0) @1`, '4:27 there is no block 1'],
    [`${head}%1: f32[2, 3] = tanh(%0) size=1`, '4:26 expected an attribute of this op, found size'],
    [`${head}%1: f32[3] = reduceSum(%0) dims=[0]`, '4:36 attribute keepDims is missing'],
    [`${head}%1: f32[3] = reduceSum(%0) dims=0 keepDims=false`, '4:33 expected [, found 0'],
    [`${head}%1: f32[3] = reduceSum(%0) dims=[0] dims=[0]`, '4:37 dims is given twice'],
    [`${head}%1: f32[3] = reduceSum(%0) dims=[0] keepDims=maybe`, '4:46 expected true or false, found maybe'],
    [`${head}%1: f32[3] = tanh(%0)`, '4:14 tanh makes f32[2, 3], not f32[3]'],
    [`${head}%1: f64[2, 3] = tanh(%0)`, '4:17 tanh makes f32[2, 3], not f64[2, 3]'],
    [`${head}%1: f32[2, 3], %2: f32[2, 3] = tanh(%0)`, '4:32 tanh makes f32[2, 3], not f32[2, 3], f32[2, 3]'],
    [`${head}%1: f32[2, 3] = add(%0)`, '4:17 add'],
    [
      `${head}%1: f32[2, 3] = communicate(%0) operation=gather`,
      '4:43 expected allReduce or reduceScatter or allGather or allToAll or broadcast or reduce or permute, found gather',
    ],
    [
      `${head}%1: f32[2, 3] = communicate(%0) reduce=undefined`,
      '4:40 expected sum or max or mean or null, found undefined',
    ],
    [
      `${head}%1: f32[2, 3] = communicate(%0) operation=permute reduce=null members=1 root=0 shift=0`,
      'attribute axes is missing',
    ],
    [
      `${head}%1: f32[2, 3] = communicate(%0) operation=permute reduce=null axes=[a] members=2 root=0 shift=2`,
      '4:17 communicate: permute among 2 has no shift 2',
    ],
    [`${head}%1: f32[2, 3] = tanh(%0) output`, '4:26 expected an attribute of this op, found output'],
  ])('%j', (text, message) => {
    expect(refusal(text)).toContain(message)
  })

  it('with a suggestion where a word is nearly right', () => {
    try {
      parseGraph(`${head}%1: f32[2, 3] = tahn(%0)`)
    } catch (error) {
      expect((error as MeshwrightError).hint).toBe('did you mean "tanh"?')
    }
  })

  it('whatever else with the same kind of error, or accepts it', () => {
    const text = printGraph(sample())
    const edit = fc.record({
      at: fc.nat(text.length),
      drop: fc.nat(4),
      add: fc.constantFrom('', '0', '-', '%1', ',', '[', ' ', '9', '"', '\n', '@'),
    })
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
        let broken = text
        for (const { at, drop, add } of edits) broken = broken.slice(0, at) + add + broken.slice(at + drop)
        try {
          parseGraph(broken)
        } catch (error) {
          expect(error).toBeInstanceOf(MeshwrightError)
          expect((error as MeshwrightError).code).toBe('GRAPH_TEXT')
        }
      }),
      { numRuns: 600 },
    )
  })
})

/** A graph of many ops. */
function sample(): Graph {
  const sizes = {
    batch: 1,
    sequence: 3,
    hidden: 4,
    heads: 2,
    vocabulary: 5,
    layers: 1,
    dtype: 'f32',
  } as const
  const { graph } = tinyGpt(sizes)
  return differentiateStage(
    splitStages(
      graph,
      graph.blocks.map(() => 0),
    )[0]!,
  ).FB
}
