import { describe, expect, it } from 'vitest'
import { inferredOp } from '../../test/support/layoutOps.ts'
import {
  type CuttableOp,
  heldBlock,
  largestBlockShape,
  type Mesh,
  opPlans,
  parseLayout,
  printLayout,
  type Redistribution,
  redistribute,
} from './index.ts'

function product(
  left: readonly number[],
  right: readonly number[],
  transposed: { readonly a?: boolean; readonly b?: boolean } = {},
) {
  const attributes = { transposeA: transposed.a ?? false, transposeB: transposed.b ?? false, scale: 1 }
  const inputs = [left, right].map((shape) => ({ dtype: 'f64', shape }) as const)
  return inferredOp({ op: 'matmul', attributes, inputs })
}

function describeMoves(moves: readonly (Redistribution | undefined)[]): string[] {
  return moves.flatMap((move) =>
    (move?.steps ?? []).map(
      (step) =>
        `${step.kind} ${step.axes.join(', ')}: ${printLayout(step.before)} to ${printLayout(step.after)}`,
    ),
  )
}

/** Bian et al., "Maximizing Parallelism in Distributed Training for Huge Neural Networks", 2021. */
describe('3-D: a linear on a cube of q x q x q', () => {
  const x = parseLayout('[i, j | k]')
  const a = parseLayout('[k, i | j]')
  const y = parseLayout('[i, k | j]')

  it.each([
    [2, 40, 24, 56],
    [3, 90, 54, 126],
  ])('q = %i: gathers, reduce-scatters and bytes are those of the paper', (q, m, k, n) => {
    const mesh: Mesh = { axes: ['i', 'j', 'k'].map((name) => ({ name, size: q })) }
    const forward = opPlans(product([m, k], [k, n]), { mesh, layouts: [x, a], wanted: [y] })[0]!
    expect(describeMoves([...forward.operands, ...forward.results])).toEqual([
      'allGather j: [i, j | k] to [i | k]',
      'allGather i: [k, i | j] to [k | j]',
      'reduceScatter k: [i | j] partial sum k to [i, k | j]',
    ])
    const toX = opPlans(product([m, n], [k, n], { b: true }), { mesh, layouts: [y, a], wanted: [x] })[0]!
    expect(describeMoves([...toX.operands, ...toX.results])).toEqual([
      'allGather k: [i, k | j] to [i | j]',
      'allGather i: [k, i | j] to [k | j]',
      'reduceScatter j: [i | k] partial sum j to [i, j | k]',
    ])
    const toA = opPlans(product([m, k], [m, n], { a: true }), { mesh, layouts: [x, y], wanted: [a] })[0]!
    expect(describeMoves([...toA.operands, ...toA.results])).toEqual([
      'allGather j: [i, j | k] to [i | k]',
      'allGather k: [i, k | j] to [i | j]',
      'reduceScatter i: [k | j] partial sum i to [k, i | j]',
    ])
    // What was gathered is kept for the backward: of nine moves three are made once.
    const once = [...forward.operands, ...forward.results, toX.operands[0], ...toX.results, ...toA.results]
    const bytes = once.reduce((sum, move) => sum + (move?.wireBytes ?? 0), 0)
    const perRank = ((2 * (q - 1)) / q ** 3) * (m * k + k * n + m * n)
    expect(bytes / q ** 3).toBeCloseTo(8 * perRank, 6)
  })

  it('holds X and A as the paper deals them out, and comes back to the layout of X after two layers', () => {
    const mesh: Mesh = { axes: ['i', 'j', 'k'].map((name) => ({ name, size: 2 })) }
    const [i, j, k] = [1, 0, 1]
    expect(heldBlock(x, [16, 8], mesh, { i, j, k })).toEqual({
      starts: [8 * i + 4 * j, 4 * k],
      ends: [12, 8],
    })
    expect(heldBlock(a, [8, 12], mesh, { i, j, k })).toEqual({ starts: [4 * k + 2 * i, 6 * j], ends: [8, 6] })
    for (const layout of [x, a, y]) expect(largestBlockShape(layout, [16, 8], mesh)).toEqual([4, 4])
    const exchanged = parseLayout('[j, i | k]')
    const second = opPlans(product([16, 8], [8, 12]), { mesh, layouts: [y, exchanged], wanted: [x] })[0]!
    expect(describeMoves(second.results)).toEqual(['reduceScatter j: [i | k] partial sum j to [i, j | k]'])
  })
})

/** Xu et al., "An Efficient 2D Method for Training Super-Large Deep Learning Models", 2021, section 3.1. */
describe('Optimus: linears on q x q, everything cut both ways', () => {
  const both = parseLayout('[row | column]')

  /** The paper's way of a product: which index the rows of the mesh cut, and which its columns. */
  const summa = (node: CuttableOp, mesh: Mesh, byRow: string, byColumn: string): number => {
    const plans = opPlans(node, { mesh, layouts: [both, both], wanted: [both] })
    const chosen = plans.find(({ assignment: { indices } }) => {
      return `${indices[byRow]}` === 'row' && `${indices[byColumn]}` === 'column'
    })!
    // It is not always the cheapest: what has few elements may be given to all.
    expect(plans[0]!.wireBytes).toBeLessThanOrEqual(chosen.wireBytes)
    return chosen.wireBytes
  }

  it.each([2, 3, 4])('q = %i: three products move input and weight each, 7 bsh + 12 hh a layer', (q) => {
    const mesh: Mesh = { axes: ['row', 'column'].map((name) => ({ name, size: q })) }
    const hidden = 12
    const rows = 60 // b s
    const linears = [
      [hidden, 3 * hidden],
      [hidden, hidden],
      [hidden, 4 * hidden],
      [4 * hidden, hidden],
    ] as const
    const total = { forward: 0, toInput: 0, toWeight: 0 }
    for (const [k, n] of linears) {
      total.forward += summa(product([rows, k], [k, n]), mesh, 'rows', 'columns')
      total.toInput += summa(product([rows, n], [k, n], { b: true }), mesh, 'rows', 'inner')
      total.toWeight += summa(product([rows, k], [rows, n], { a: true }), mesh, 'inner', 'columns')
    }
    // With rings instead of the paper's trees: (q - 1) / q^2 instead of log2(p) / (2 sqrt(p)).
    const perRank = 8 * ((q - 1) / q ** 2) * (7 * rows * hidden + 12 * hidden ** 2)
    for (const bytes of Object.values(total)) expect(bytes / q ** 2).toBeCloseTo(perRank, 6)
  })

  it('moves A along rows and B along columns forward, B and the result backward', () => {
    const mesh: Mesh = { axes: ['row', 'column'].map((name) => ({ name, size: 2 })) }
    const request = { mesh, layouts: [both, both], wanted: [both] }
    const forward = opPlans(product([64, 8], [8, 24]), request)[0]!
    expect(describeMoves([...forward.operands, ...forward.results])).toEqual([
      'allGather column: [row | column] to [row | .]',
      'allGather row: [row | column] to [. | column]',
    ])
    const backward = opPlans(product([64, 24], [8, 24], { b: true }), request)[0]!
    expect(describeMoves([...backward.operands, ...backward.results])).toEqual([
      'allGather row: [row | column] to [. | column]',
      'reduceScatter column: [row | .] partial sum column to [row | column]',
    ])
  })
})

/** Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation Recomputation", 2022, section 4.2.2. */
describe('Megatron: column then row', () => {
  const mesh: Mesh = { axes: [{ name: 'tensor', size: 4 }] }
  const [rows, hidden] = [48, 16]

  it('has one all-reduce of bsh for two linears, and with a cut sequence a gather and a reduce-scatter instead', () => {
    const whole = parseLayout('[. | .]')
    const columns = opPlans(product([rows, hidden], [hidden, 4 * hidden]), {
      mesh,
      layouts: [whole, parseLayout('[. | tensor]')],
    })[0]!
    expect(columns.wireBytes).toBe(0)
    expect(printLayout(columns.outputs[0]!)).toBe('[. | tensor]')
    const second = product([rows, 4 * hidden], [4 * hidden, hidden])
    const layouts = [columns.outputs[0]!, parseLayout('[tensor | .]')]
    const reduced = opPlans(second, { mesh, layouts, wanted: [whole] })[0]!
    expect(describeMoves([...reduced.operands, ...reduced.results])).toEqual([
      'allReduce tensor: [. | .] partial sum tensor to [. | .]',
    ])
    expect(reduced.wireBytes / 4).toBe(8 * 2 * (3 / 4) * rows * hidden)
    const cut = parseLayout('[tensor | .]')
    const scattered = opPlans(second, { mesh, layouts, wanted: [cut] })[0]!
    expect(describeMoves(scattered.results)).toEqual([
      'reduceScatter tensor: [. | .] partial sum tensor to [tensor | .]',
    ])
    const gathered = opPlans(product([rows, hidden], [hidden, 4 * hidden]), {
      mesh,
      layouts: [cut, parseLayout('[. | tensor]')],
      wanted: [parseLayout('[. | tensor]')],
    })[0]!
    expect(describeMoves(gathered.operands)).toEqual(['allGather tensor: [tensor | .] to [. | .]'])
    expect(scattered.wireBytes + gathered.wireBytes).toBe(reduced.wireBytes)
  })
})

/** Jacobs et al., "DeepSpeed Ulysses", 2023, section 3: all-to-all from a cut sequence to cut heads. */
describe('Ulysses', () => {
  it('sends (p - 1) / p of a rank’s part of each tensor', () => {
    const mesh: Mesh = { axes: [{ name: 'context', size: 4 }] }
    const type = { dtype: 'f32', shape: [2, 8, 32, 16] } as const
    const sequence = parseLayout('[. | . | context | .]')
    const heads = parseLayout('[. | context | . | .]')
    const plan = redistribute(type, mesh, sequence, heads)
    expect(plan.steps.map(({ kind }) => kind)).toEqual(['allToAll'])
    expect(plan.wireBytes / 4).toBe((4 * (3 / 4) * (2 * 8 * 32 * 16)) / 4)
  })
})
