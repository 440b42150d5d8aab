import { describe, expect, it } from 'vitest'
import { GraphBuilder } from './builder.ts'
import { interpretGraph } from './interpret.ts'
import type { StageDerivative } from './stageDerivative.ts'
import { type StageCrossings, stageTasks, type TaskOptions } from './tasks.ts'
import type { Graph, GraphOutput, OpAttributes, Tensor, ValueId } from './types.ts'

const matrix = { dtype: 'f64', shape: [2, 2] } as const
const product = { transposeA: false, transposeB: false, scale: 1 } as const
const among = (operation: 'allGather' | 'allReduce' | 'reduceScatter'): OpAttributes['communicate'] => ({
  operation,
  reduce: operation === 'allGather' ? null : 'sum',
  axes: ['tensor'],
  members: 1,
  root: 0,
  shift: 0,
})

/**
 * What a rank does of `loss = sum(exp(gather(x) w') * 2)` where `w'` is gathered of the rank's part of w, and x of its part
 * of x0. Among one rank, so that it can be interpreted.
 */
function derivative(): StageDerivative {
  const builder = new GraphBuilder()
  const one = (...args: Parameters<GraphBuilder['one']>): ValueId => builder.one(...args)
  const x0 = builder.input('x0', 'activation', matrix)
  const w = builder.input('w', 'parameter', matrix)
  const start = builder.input('start', 'scalar', { dtype: 'i32', shape: [] })
  const x = one('communicate', [x0], among('allGather'))
  const own = one('dynamicSlice', [w, start], { dim: 0, size: 2 })
  const whole = one('communicate', [own], among('allGather'))
  const y = one('exp', [one('matmul', [x, whole], product)], {})
  const loss = one('reduceSum', [y], { dims: [0, 1], keepDims: false })
  const seed = builder.input('lossScale', 'scalar', { dtype: 'f64', shape: [] })
  const dy = one('mul', [y, one('broadcast', [seed], { shape: [2, 2] })], {})
  const dx = one('matmul', [dy, whole], { ...product, transposeB: true })
  const dw = one('matmul', [x, dy], { ...product, transposeA: true })
  const outputs: readonly (readonly [string, ValueId])[] = [
    ['loss', loss],
    ['d.x0', one('communicate', [dx], among('reduceScatter'))],
    ['g.w', one('communicate', [dw], among('reduceScatter'))],
  ]
  for (const [name, value] of outputs) builder.output(name, value)
  const joint = builder.build()
  const pick = (name: string): GraphOutput[] => joint.outputs.filter((output) => output.name === name)
  return {
    joint,
    forwardOutputs: pick('loss'),
    cotangentOutputs: pick('d.x0'),
    gradientOutputs: pick('g.w'),
    standIns: [],
    gradients: [{ parameter: 'w', kind: 'dense', output: 'g.w' }],
  }
}

const piece: StageCrossings = { stage: 1, sends: [], receives: [{ name: 'x0', from: 0 }] }
const tasksOf = (options: TaskOptions = {}): ReturnType<typeof stageTasks> =>
  stageTasks(piece, derivative(), options)

function gathers({ nodes }: Graph): number {
  return nodes.filter(({ op, attributes }) => {
    return op === 'communicate' && attributes.operation === 'allGather'
  }).length
}

const names = (graph: Graph): string[] => graph.inputs.map(({ name }) => name)

describe('tasks of a rank that communicates', () => {
  it('gather again for the backward, parameters and activations', () => {
    const { F, B, residuals } = tasksOf()
    expect([F, B].map(gathers)).toEqual([2, 2])
    // Of x the part that the rank has, and y, which was not gathered.
    expect(residuals).toHaveLength(1)
    expect(names(B)).toEqual(['x0', 'w', 'start', 'lossScale', 'r0'])
  })

  it('hold what was gathered where that is asked for', () => {
    const { B, residuals } = tasksOf({ holdGathered: true })
    expect(gathers(B)).toBe(0)
    expect(residuals).toHaveLength(3)
    expect(names(B)).toEqual(['lossScale', ...residuals])
  })

  it('do as one what they do in turn', () => {
    const { F, B, FB } = tasksOf()
    const tensor = (...data: number[]): Tensor => ({ type: matrix, data: Float64Array.from(data) })
    const inputs = new Map<string, Tensor>([
      ['x0', tensor(1, -0.5, 0.25, 2)],
      ['w', tensor(0.5, 0.1, -0.3, 0.7)],
      ['start', { type: { dtype: 'i32', shape: [] }, data: Int32Array.of(0) }],
      ['lossScale', { type: { dtype: 'f64', shape: [] }, data: Float64Array.of(2) }],
    ])
    const forward = interpretGraph(F, inputs)
    const backward = interpretGraph(B, new Map([...inputs, ...forward]))
    const both = interpretGraph(FB, inputs)
    expect([...both.keys()]).toEqual(['loss', 'd.x0', 'g.w'])
    for (const [name, { data }] of both)
      expect([...data]).toEqual([...(backward.get(name) ?? forward.get(name))!.data])
  })

  it('add up what only gradients need of the cotangents before the halves of the backward part', () => {
    const builder = new GraphBuilder()
    const one = (...args: Parameters<GraphBuilder['one']>): ValueId => builder.one(...args)
    const x0 = builder.input('x0', 'activation', matrix)
    const w = builder.input('w', 'parameter', matrix)
    const cotangent = builder.input('d.x1', 'cotangent', matrix)
    const y = one('exp', [one('matmul', [x0, w], product)], {})
    // Terms, of which the gradient takes the sum and the cotangent of x0 something else.
    const terms = one('matmul', [cotangent, y], product)
    const sum = one('communicate', [one('reshape', [terms], { shape: [2, 2] })], among('allReduce'))
    builder.output('x1', y)
    builder.output('d.x0', one('exp', [terms], {}))
    builder.output('g.w', one('matmul', [x0, sum], { ...product, transposeA: true }))
    const joint = builder.build()
    const pick = (name: string): GraphOutput[] => joint.outputs.filter((output) => output.name === name)
    const { I, W, exported } = stageTasks(
      { stage: 1, sends: [{ name: 'x1', to: [2] }], receives: [{ name: 'x0', from: 0 }] },
      {
        joint,
        forwardOutputs: pick('x1'),
        cotangentOutputs: pick('d.x0'),
        gradientOutputs: pick('g.w'),
        standIns: [],
        gradients: [{ kind: 'dense', parameter: 'w', output: 'g.w' }],
      },
    )
    const sums = ({ nodes }: Graph): number => nodes.filter(({ op }) => op === 'communicate').length
    expect([I, W].map(sums)).toEqual([1, 0])
    expect(exported).toHaveLength(1)
  })
})
