import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evaluate, expectSame, type FloatData, runLoop, viewOf } from '../../../../test/support/fusedLoops.ts'
import {
  type FloatDType,
  type Graph,
  GraphBuilder,
  interpretGraph,
  makeTensor,
  type TensorType,
  type ValueId,
} from '../../../graph/index.ts'
import { canFuse, compileElementwise, createMemory } from './index.ts'

const special = [0, -0, 1, -1, 0.1, 3, 1e-45, -1e-320, 1e38, 1e300, Number.POSITIVE_INFINITY, Number.NaN]
const numberArbitrary = fc.oneof(
  fc.constantFrom(...special),
  fc.double({ min: -10, max: 10, noNaN: true }),
  fc.double(),
)

interface Step {
  readonly kind: 'unary' | 'binary' | 'compare' | 'logic' | 'not' | 'where' | 'cast' | 'castBool' | 'fill'
  readonly pick: readonly [number, number, number]
  readonly which: number
  readonly value: number
}

const stepArbitrary: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(
    ...([
      'unary',
      'binary',
      'binary',
      'compare',
      'logic',
      'not',
      'where',
      'cast',
      'castBool',
      'fill',
    ] as const),
  ),
  pick: fc.tuple(fc.nat(), fc.nat(), fc.nat()),
  which: fc.nat(),
  value: fc.oneof(fc.constantFrom(0, -0, 1), fc.double({ min: -10, max: 10, noNaN: true })),
})

const unaryOps = ['neg', 'abs', 'sqrt', 'reciprocal'] as const
const binaryOps = ['add', 'sub', 'mul', 'div', 'max', 'min'] as const

/** A graph out of random choices; every choice means something whatever was chosen before. */
function makeGraph(dtypes: readonly FloatDType[], count: number, steps: readonly Step[]): Graph {
  const builder = new GraphBuilder()
  const values: ValueId[] = []
  dtypes.forEach((dtype, index) => {
    values.push(builder.input(`long${index}`, 'state', { dtype, shape: [count] }))
    values.push(builder.input(`scalar${index}`, 'scalar', { dtype, shape: [] }))
  })
  const among = (pick: number, accept: (type: TensorType) => boolean): ValueId | undefined => {
    const found = values.filter((value) => accept(builder.type(value)))
    return found[pick % Math.max(1, found.length)]
  }
  for (const { kind, pick, which, value } of steps) {
    const first = among(pick[0], (type) => type.dtype !== 'bool')!
    const { dtype } = builder.type(first)
    const second = among(pick[1], (type) => type.dtype === dtype)!
    const condition = among(pick[0], (type) => type.dtype === 'bool')
    const other = among(pick[1], (type) => type.dtype === 'bool')
    const third = among(pick[2], (type) => type.dtype === dtype)!
    const choose = <T>(options: readonly T[]): T => options[which % options.length]!
    if (kind === 'unary') values.push(builder.one(choose(unaryOps), [first], {}))
    else if (kind === 'binary') values.push(builder.one(choose(binaryOps), [first, second], {}))
    else if (kind === 'compare') values.push(builder.one(choose(['less', 'equal']), [first, second], {}))
    else if (kind === 'fill')
      values.push(
        builder.one('fill', [], { shape: which % 2 === 0 ? [] : [count], dtype: choose(dtypes), value }),
      )
    else if (kind === 'cast') values.push(builder.one('cast', [first], { dtype: choose(dtypes) }))
    else if (kind === 'castBool' && which % 2 === 0)
      values.push(builder.one('cast', [first], { dtype: 'bool' }))
    else if (condition === undefined || other === undefined) continue
    else if (kind === 'castBool') values.push(builder.one('cast', [condition], { dtype: choose(dtypes) }))
    else if (kind === 'logic') values.push(builder.one(choose(['and', 'equal']), [condition, other], {}))
    else if (kind === 'not') values.push(builder.one('not', [condition], {}))
    else values.push(builder.one('where', [condition, second, third], {}))
  }
  const floats = values.filter((value) => builder.type(value).dtype !== 'bool')
  floats.slice(-4).forEach((value, index) => {
    builder.output(`out${index}`, value)
  })
  return builder.build({ keepInputs: true })
}

const caseArbitrary = fc.record({
  dtypes: fc.constantFrom<FloatDType[]>(['f32'], ['f64'], ['f32', 'f64']),
  count: fc.constantFrom(0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 67),
  steps: fc.array(stepArbitrary, { maxLength: 25 }),
  data: fc.array(numberArbitrary, { minLength: 70, maxLength: 70 }),
  shared: fc.boolean(),
})

function inputData(graph: Graph, count: number, data: readonly number[]): FloatData[] {
  return graph.inputs.map(({ value }, index) => {
    const { dtype, shape } = graph.values[value]!.type
    const picked = Array.from(
      { length: shape.length === 0 ? 1 : count },
      (_, i) => data[(i + 13 * index) % 70]!,
    )
    return dtype === 'f32' ? Float32Array.from(picked) : Float64Array.from(picked)
  })
}

describe('compileElementwise', () => {
  it('gives the bits of a plain loop, for random graphs of f32, f64 and both', () => {
    fc.assert(
      fc.property(caseArbitrary, ({ dtypes, count, steps, data, shared }) => {
        const graph = makeGraph(dtypes, count, steps)
        expect(canFuse(graph)).toBe(true)
        const inputs = inputData(graph, count, data)
        const wanted = evaluate(graph, Math.max(1, count), inputs)
        const lengths = graph.outputs.map(({ value }) =>
          graph.values[value]!.type.shape.length === 0 ? 1 : count,
        )
        expectSame(
          runLoop(graph, count, inputs, { shared }),
          wanted.map((values, index) => values.slice(0, lengths[index])),
        )
      }),
      { numRuns: 150 },
    )
  })

  it('agrees with the reference interpreter in f64', () => {
    fc.assert(
      fc.property(caseArbitrary, ({ count, steps, data }) => {
        const graph = makeGraph(['f64'], count, steps)
        const inputs = inputData(graph, count, data)
        const tensors = new Map(
          graph.inputs.map(({ name, value }, index) => [
            name,
            makeTensor(graph.values[value]!.type, inputs[index]!),
          ]),
        )
        const reference = interpretGraph(graph, tensors)
        expectSame(
          runLoop(graph, count, inputs),
          graph.outputs.map(({ name }) => reference.get(name)!.data),
        )
      }),
      { numRuns: 60 },
    )
  })

  for (const dtype of ['f32', 'f64'] as const) {
    it(`computes every length in place with one module (${dtype})`, () => {
      const graph = adamW(dtype, 100)
      const loop = compileElementwise(graph)
      const memory = createMemory(4096)
      const run = loop.instantiate(memory)
      for (let count = 0; count <= 40; count++) {
        const inputs = ['p', 'g', 'm', 'v'].map((_, index) =>
          Array.from({ length: count }, (_unused, i) =>
            Math.fround(Math.sin(i * 4 + index + 1) + (index === 3 ? 2 : 0)),
          ),
        )
        const scalars = [1e-3, 0.1, 0.05].map(Math.fround)
        // Parameter, gradient, moments, scalars; the outputs take the places of parameter and moments.
        const at = (index: number): number => 512 * (index + 1)
        inputs.forEach((values, index) => {
          viewOf(memory.buffer, dtype, at(index), count + 1).set([...values, 77])
        })
        scalars.forEach((value, index) => {
          viewOf(memory.buffer, dtype, 8 + 8 * index, 1)[0] = value
        })
        run(count, at(0), at(1), at(2), at(3), 8, 16, 24, at(0), at(2), at(3))
        const wanted = evaluate(graph, count, [...inputs, ...scalars.map((value) => [value])])
        ;[0, 2, 3].forEach((place, index) => {
          expect([...viewOf(memory.buffer, dtype, at(place), count + 1)]).toEqual([...wanted[index]!, 77])
        })
      }
    })
  }

  it('keeps conditions right between widths, lanes, scalars and vectors', () => {
    const count = 37
    const builder = new GraphBuilder()
    const input = (name: string, dtype: FloatDType, shape: number[]): ValueId =>
      builder.input(name, 'state', { dtype, shape })
    const floats = {
      f32: [input('a', 'f32', [count]), input('b', 'f32', [count]), input('p', 'f32', [])] as const,
      f64: [input('c', 'f64', [count]), input('d', 'f64', [count]), input('q', 'f64', [])] as const,
    }
    const conditions: ValueId[] = []
    for (const [x, y, scalar] of Object.values(floats)) {
      const one = builder.one('fill', [], { shape: [], dtype: builder.type(x).dtype, value: 1 })
      conditions.push(
        builder.one('less', [x, y], {}),
        builder.one('equal', [x, scalar], {}),
        builder.one('less', [scalar, one], {}),
        builder.one('cast', [y], { dtype: 'bool' }),
      )
    }
    for (const first of conditions.slice(0, 8))
      for (const second of conditions.slice(0, 8))
        conditions.push(
          builder.one('and', [first, builder.one('not', [second], {})], {}),
          builder.one('equal', [first, second], {}),
          builder.one('where', [first, second, conditions[1]!], {}),
        )
    for (const [dtype, [x, y]] of Object.entries(floats) as [FloatDType, (typeof floats)[FloatDType]][])
      conditions.forEach((condition, index) => {
        builder.output(`${dtype}.${index}`, builder.one('where', [condition, x, y], {}))
        builder.output(`${dtype}.cast.${index}`, builder.one('cast', [condition], { dtype }))
      })
    const graph = builder.build()
    // Small whole numbers, so that equality and zero are common; all lanes of a group differ.
    const data = (step: number): number[] => Array.from({ length: count }, (_, index) => (index * step) % 3)
    for (const [p, q] of [
      [0, 2],
      [1, 0],
    ] as const) {
      const inputs = graph.inputs.map(({ name }, index) =>
        name === 'p' ? [p] : name === 'q' ? [q] : data([1, 2, 4, 5, 7, 8][index]!),
      )
      const wanted = evaluate(graph, count, inputs).map((values, index) =>
        graph.values[graph.outputs[index]!.value]!.type.shape.length === 0 ? values.slice(0, 1) : values,
      )
      for (const part of partsOf(graph))
        expectSame(
          runLoop(part.graph, count, inputs),
          part.outputs.map((output) => wanted[output]!),
        )
    }
  })

  it('reads all inputs before it writes in their places', () => {
    const builder = new GraphBuilder()
    const type: TensorType = { dtype: 'f32', shape: [21] }
    const a = builder.input('a', 'state', type)
    const b = builder.input('b', 'state', type)
    builder.output('wasB', b)
    builder.output('wasA', a)
    const graph = builder.build()
    const [left, right] = [
      Array.from({ length: 21 }, (_, i) => i),
      Array.from({ length: 21 }, (_, i) => -i - 1),
    ]
    expectSame(
      runLoop(graph, 21, [left, right], {
        inPlace: [
          [0, 0],
          [1, 1],
        ],
      }),
      [right, left],
    )
  })

  it('computes a graph of scalars only, such as a clip factor', () => {
    const builder = new GraphBuilder()
    const scalar = (dtype: FloatDType): TensorType => ({ dtype, shape: [] })
    const squares = builder.input('sumSquares', 'scalar', scalar('f64'))
    const limit = builder.input('limit', 'scalar', scalar('f32'))
    const norm = builder.one('cast', [builder.one('sqrt', [squares], {})], { dtype: 'f32' })
    const one = builder.one('fill', [], { shape: [], dtype: 'f32', value: 1 })
    builder.output('norm', norm)
    builder.output('factor', builder.one('min', [builder.one('div', [limit, norm], {}), one], {}))
    const [norms, factors] = runLoop(builder.build(), 1, [[50], [1]])
    expect(norms![0]).toBe(Math.fround(Math.sqrt(50)))
    expect(factors![0]).toBe(Math.fround(1 / Math.fround(Math.sqrt(50))))
  })

  it('refuses what is not one loop', () => {
    const type = (shape: number[], dtype: TensorType['dtype'] = 'f32'): TensorType => ({ dtype, shape })
    const refused = (build: (builder: GraphBuilder) => ValueId): void => {
      const builder = new GraphBuilder()
      builder.output('out', build(builder))
      const graph = builder.build()
      expect(canFuse(graph)).toBe(false)
      expect(() => compileElementwise(graph)).toThrow(/internal: graph cannot be one loop/)
    }
    refused((builder) => builder.one('exp', [builder.input('x', 'state', type([4]))], {}))
    refused((builder) =>
      builder.one(
        'add',
        [builder.input('x', 'state', type([4, 3])), builder.input('y', 'state', type([3]))],
        {},
      ),
    )
    refused((builder) =>
      builder.one(
        'abs',
        [builder.one('cast', [builder.input('x', 'state', type([4], 'i32'))], { dtype: 'f32' })],
        {},
      ),
    )
    refused((builder) => builder.one('not', [builder.input('x', 'state', type([4], 'bool'))], {}))
    refused((builder) =>
      builder.one('reduceSum', [builder.input('x', 'state', type([4]))], { dims: [0], keepDims: false }),
    )
  })

  it('refuses operands that are misplaced', () => {
    const run = compileElementwise(adamW('f32', 8)).instantiate(createMemory(65_536))
    const good = [0, 64, 128, 192, 256, 260, 264, 0, 128, 192]
    const withOffset = (operand: number, offset: number): number[] =>
      good.map((known, index) => (index === operand ? offset : known))
    run(8, ...good)
    expect(() => run(8, ...good.slice(1))).toThrow(/10 operands was given 9/)
    expect(() => run(-1, ...good)).toThrow(/over -1 elements/)
    expect(() => run(1.5, ...good)).toThrow(/over 1.5 elements/)
    expect(() => run(8, ...withOffset(1, 66))).toThrow(/operand g/)
    expect(() => run(8, ...withOffset(1, -4))).toThrow(/operand g/)
    expect(() => run(8, ...withOffset(1, 65_536 - 28))).toThrow(/operand g/)
    expect(() => run(8, ...withOffset(7, 4))).toThrow(/overlap/)
    expect(() => run(8, ...withOffset(8, 0))).toThrow(/overlap/)
  })
})

/** A graph with few outputs at a time, as a loop has a limit of ports. */
function partsOf(graph: Graph): { readonly graph: Graph; readonly outputs: readonly number[] }[] {
  const parts: { graph: Graph; outputs: number[] }[] = []
  for (let start = 0; start < graph.outputs.length; start += 60) {
    const outputs = graph.outputs.slice(start, start + 60)
    parts.push({ graph: { ...graph, outputs }, outputs: outputs.map((_, index) => start + index) })
  }
  return parts
}

/** One update as torch.optim.AdamW documents it, with the bias corrections folded into two scalars. */
function adamW(dtype: FloatDType, count: number): Graph {
  const builder = new GraphBuilder()
  const long: TensorType = { dtype, shape: [count] }
  const [p, g, m, v] = ['p', 'g', 'm', 'v'].map((name) => builder.input(name, 'state', long)) as [
    ValueId,
    ValueId,
    ValueId,
    ValueId,
  ]
  const [rate, first, second] = ['rate', 'first', 'second'].map((name) =>
    builder.input(name, 'scalar', { dtype, shape: [] }),
  ) as [ValueId, ValueId, ValueId]
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype, value })
  const mul = (a: ValueId, b: ValueId): ValueId => builder.one('mul', [a, b], {})
  const add = (a: ValueId, b: ValueId): ValueId => builder.one('add', [a, b], {})
  const newM = add(mul(m, constant(0.9)), mul(g, constant(0.1)))
  const newV = add(mul(v, constant(0.999)), mul(mul(g, g), constant(0.001)))
  const denominator = add(builder.one('sqrt', [builder.one('div', [newV, second], {})], {}), constant(1e-8))
  const step = builder.one('div', [builder.one('div', [newM, first], {}), denominator], {})
  const decayed = mul(p, builder.one('sub', [constant(1), mul(rate, constant(0.1))], {}))
  builder.output('p', builder.one('sub', [decayed, mul(rate, step)], {}))
  builder.output('m', newM)
  builder.output('v', newV)
  return builder.build()
}
