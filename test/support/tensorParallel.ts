import { type Graph, GraphBuilder, printGraph, type ValueId } from '../../src/graph/index.ts'
import { buildClipFactor, makeOptimizer } from '../../src/optimizers/index.ts'
import { type Program, parseProgram } from '../../src/program/index.ts'

/**
 * A training step with tensor parallelism, written by hand as Shoeybi et al. 2019 (Megatron-LM) cut it: a table whose rows
 * are cut and padded, a scale that all ranks have, a matrix cut by columns and one cut by rows; the loss is the sum of
 * squares of what comes out. Over two micro-batches of two samples a replica, with clipping. With `data` and `tensor` 1 it
 * is the serial step.
 */
export function tensorProgram({ data, tensor }: { readonly data: number; readonly tensor: number }): Program {
  return parseProgram(tensorText({ data, tensor }))
}

export const tensorShapes = { wte: [3, 2], a: [2, 4], b: [4, 2], s: [2] } as const

export function tensorText({ data, tensor }: { readonly data: number; readonly tensor: number }): string {
  const [rows, inner] = [4 / tensor, 4 / tensor]
  const at = { wte: 0, a: 2 * rows, b: 2 * rows + 2 * inner, s: 2 * rows + 4 * inner }
  const size = at.s + 2
  const pack = `
    at ${at.wte}: wte [3, 2] block [4/tensor, 2] owned sum over data
    at ${at.a}: a [2, 4] block [2, 4/tensor] owned sum over data
    at ${at.b}: b [4, 2] block [4/tensor, 2] owned sum over data
    at ${at.s}: s [2] owned sum over data`
  const state = pack.replaceAll(' sum over data', '')
  const block = `${at.a}:${at.s}`
  const task = (name: string, ports: string, graph: Graph): string =>
    `task ${name}: graph\n${ports}\n${printGraph(graph)}`
  const update = makeOptimizer('sgd', { momentum: 0, nesterov: false, weightDecay: 0 })
  const ports = ({ inputs, outputs }: Graph): string =>
    [...inputs.map(({ name }) => `  read ${name}`), ...outputs.map(({ name }) => `  write ${name}`)].join(
      '\n',
    )
  const step = update.build({ elements: size, dtype: 'f64', decay: false })
  const clip = buildClipFactor({ maxNorm: 0.5, dtype: 'f64' })
  const microbatch = (m: number, mode: string): string => `
  load    move in tokens -> tokens[${m}]
  compute run FB0.0 tokens[${m}] start w0[t] -> t0.0[${m}] t0.1[${m}] for FB stage 0 m${m}
  tensor  all-reduce #${10 * m + 1} sum t0.0[${m}] over tensor
  compute run FB0.1 t0.0[${m}] w0[t] -> t0.2[${m}] t0.3[${m}] for FB stage 0 m${m}
  tensor  all-reduce #${10 * m + 2} sum t0.2[${m}] over tensor
  compute run FB0.2 t0.2[${m}] t0.3[${m}] t0.0[${m}] w0[t] lossScale -> loss${mode} g0{${block}}${mode} t0.4[${m}] for FB stage 0 m${m}
  tensor  all-reduce #${10 * m + 3} sum t0.4[${m}] over tensor
  compute run FB0.3 t0.4[${m}] t0.0[${m}] w0[t] t0.1[${m}] -> g0{0:${at.a}}${mode} g0{${at.s}:${size}}${mode} for FB stage 0 m${m} ; free tokens[${m}] t0.0..4[${m}]`
  return `program 1
work gradient: 1 stages, 2 microbatches
channel slots 1
mesh pipeline=0: data=${data}, tensor=${tensor}
stream compute: compute
stream tensor: network
stream reduce: network
stream load: host
group tensor: tensor
group data: data
group all: data, tensor
${task('FB0.0', `  read tokens\n  read start\n  read pack\n    at 0: wte\n  write t0\n  write t1`, embed(rows))}
${task('FB0.1', `  read t0\n  read pack\n    at ${at.a}: a\n    at ${at.b}: b\n    at ${at.s}: s\n  write t2\n  write t3`, forward(inner))}
${task('FB0.2', `  read t2\n  read t3\n  read t0\n  read pack\n    at ${at.a}: a\n    at ${at.b}: b\n    at ${at.s}: s\n  read lossScale\n  write loss\n  write pack\n    at 0: g.a\n    at ${at.b - at.a}: g.b\n  write t4`, backward(inner))}
${task('FB0.3', `  read t4\n  read t0\n  read pack\n    at ${at.s}: s\n  read ids\n  write pack\n    at 0: rows g.wte.rows0 by operand 3, ${rows} x 2 cleared\n  write pack\n    at 0: g.s`, scale())}
${task('U0', ports(step), step)}
${task('clip', ports(clip), clip)}
task sumSquares: kernel sumSquares
role pipeline=0
  buffer w0: f64[${size}] state${state}
  buffer g0: f64[${size}]${pack}
  buffer tokens: i32[2]
  buffer start: i32[] constant ${rows} * place along tensor
  buffer t0.0: f64[2, 2] sum over tensor
  buffer t0.1: i32[2]
  buffer t0.2: f64[2, 2] sum over tensor
  buffer t0.3: f64[2, ${inner}]
  buffer t0.4: f64[2, 2] sum over tensor
  buffer lossScale: f64[]
  buffer learningRate: f64[]
  buffer loss: f64[] sum over data
  buffer owner: f64[] constant data=0, tensor=0
  buffer ownerOfBlocks: f64[] constant data=0
  buffer sumOfSquares: f64[] sum over all
  buffer gradientNorm: f64[]
  buffer clipFactor: f64[]
  load    move in lossScale -> lossScale${microbatch(0, '')}${microbatch(1, ' +=')}
  reduce  all-reduce #30 sum g0 over data
  reduce  all-reduce #31 sum loss over data
  load    move out loss -> loss
  load    move out g0 -> gradients
  compute run sumSquares g0{0:${at.s}} ownerOfBlocks -> sumOfSquares
  compute run sumSquares g0{${at.s}:${size}} owner -> sumOfSquares +=
  reduce  all-reduce #32 sum sumOfSquares over all
  compute run clip sumOfSquares -> gradientNorm clipFactor
  load    move out gradientNorm -> gradientNorm
  load    move in learningRate -> learningRate
  compute run U0 w0[t] g0 learningRate clipFactor -> w0[t+1] for U stage 0 m0 ; free g0 loss sumOfSquares gradientNorm clipFactor lossScale learningRate
`
}

const real = (...shape: number[]) => ({ dtype: 'f64', shape }) as const
const whole = (...shape: number[]) => ({ dtype: 'i32', shape }) as const

class Maker extends GraphBuilder {
  product(a: ValueId, b: ValueId, transposeA = false, transposeB = false): ValueId {
    return this.one('matmul', [a, b], { transposeA, transposeB, scale: 1 })
  }

  graph(): Graph {
    return this.build({ keepInputs: true })
  }
}

/** Rows of the part of the table that begins at `start`; zeros for ids of other parts, whose place is -1. */
function embed(rows: number): Graph {
  const maker = new Maker()
  const tokens = maker.input('tokens', 'data', whole(2))
  const start = maker.input('start', 'scalar', whole())
  const table = maker.input('wte', 'parameter', real(rows, 2))
  const number = (value: number): ValueId => maker.one('fill', [], { ...whole(), value })
  const id = maker.one('sub', [tokens, start], {})
  const above = maker.one('not', [maker.one('less', [id, number(0)], {})], {})
  const inside = maker.one('and', [above, maker.one('less', [id, number(rows)], {})], {})
  const found = maker.one('gather', [table, maker.one('where', [inside, id, number(0)], {})], {})
  const mask = maker.one('reshape', [maker.one('cast', [inside], { dtype: 'f64' })], { shape: [2, 1] })
  maker.output('t0', maker.one('mul', [found, mask], {}))
  maker.output('t1', maker.one('where', [inside, id, number(-1)], {}))
  return maker.graph()
}

function forward(inner: number): Graph {
  const maker = new Maker()
  const x = maker.input('t0', 'activation', real(2, 2))
  const a = maker.input('a', 'parameter', real(2, inner))
  const b = maker.input('b', 'parameter', real(inner, 2))
  const s = maker.input('s', 'parameter', real(2))
  const hidden = maker.product(maker.one('mul', [x, s], {}), a)
  maker.output('t2', maker.product(hidden, b))
  maker.output('t3', maker.one('mul', [hidden, maker.one('fill', [], { ...real(), value: 1 })], {}))
  return maker.graph()
}

function backward(inner: number): Graph {
  const maker = new Maker()
  const y = maker.input('t2', 'activation', real(2, 2))
  const hidden = maker.input('t3', 'activation', real(2, inner))
  const x = maker.input('t0', 'activation', real(2, 2))
  const a = maker.input('a', 'parameter', real(2, inner))
  const b = maker.input('b', 'parameter', real(inner, 2))
  const s = maker.input('s', 'parameter', real(2))
  const lossScale = maker.input('lossScale', 'scalar', real())
  const squares = maker.one('reduceSum', [maker.one('mul', [y, y], {})], { dims: [0, 1], keepDims: false })
  maker.output('loss', maker.one('mul', [squares, lossScale], {}))
  const two = maker.one('fill', [], { ...real(), value: 2 })
  const dy = maker.one('mul', [y, maker.one('mul', [two, lossScale], {})], {})
  const dHidden = maker.product(dy, b, false, true)
  maker.output('g.a', maker.product(maker.one('mul', [x, s], {}), dHidden, true))
  maker.output('g.b', maker.product(hidden, dy, true))
  maker.output('t4', maker.product(dHidden, a, false, true))
  return maker.graph()
}

function scale(): Graph {
  const maker = new Maker()
  const dScaled = maker.input('t4', 'activation', real(2, 2))
  const x = maker.input('t0', 'activation', real(2, 2))
  const s = maker.input('s', 'parameter', real(2))
  maker.output('g.wte.rows0', maker.one('mul', [dScaled, s], {}))
  maker.output(
    'g.s',
    maker.one('reduceSum', [maker.one('mul', [dScaled, x], {})], { dims: [0], keepDims: false }),
  )
  return maker.graph()
}
