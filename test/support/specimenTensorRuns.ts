import {
  add,
  batches,
  chains,
  column,
  columnBlocks,
  descent,
  eight,
  fromColumnBlocks,
  fromRowColumnBlocks,
  linear,
  type Matrix,
  matrix,
  product,
  rate,
  row,
  rowColumnBlocks,
  type SpecimenRun,
  scaled,
  sumOf,
  tensorParallel,
  total,
} from './specimenMathematics.ts'

/** Of systems that share out the work on one sample. By their numbers. */
export const tensorRuns: Readonly<Record<string, SpecimenRun>> = {
  '02': {
    steps: 2,
    scalars: { learningRate: rate },
    wanted: ({ state }) => {
      const { x0, x1, a } = state as Record<'x0' | 'x1' | 'a', number[]>
      const { loss, gradient, cotangents } = linear([matrix(x0, 4), matrix(x1, 4)], matrix(a, 2))
      const [d0, d1] = cotangents as [number[], number[]]
      return { scalars: { loss }, state: { x0, x1, d0, d1, a: descent(a, gradient, rate) } }
    },
  },
  '03': tensorParallel('loss'),
  '05': {
    steps: 1,
    wanted: ({ state }) => {
      const q = (rank: number, m: number): number[] =>
        state['q']!.slice(4 * rank + 2 * m, 4 * rank + 2 * m + 2)
      const kv = (rank: number, m: number): number[] =>
        state['kv']!.slice(8 * rank + 4 * m, 8 * rank + 4 * m + 4)
      let loss = 0
      for (const [m, size] of [
        [0, 4],
        [1, 2],
      ] as const)
        for (let rank = 0; rank < 4; rank++) {
          const o = [0, 0]
          for (let other = 0; other < 4; other++) {
            if (Math.floor(other / size) !== Math.floor(rank / size)) continue
            const [k0, k1, v0, v1] = kv(other, m) as [number, number, number, number]
            const [q0, q1] = q(rank, m) as [number, number]
            const score = q0 * k0 + q1 * k1
            o[0]! += score * v0
            o[1]! += score * v1
          }
          loss += (o[0]! ** 2 + o[1]! ** 2) / 2
        }
      return { scalars: { loss } }
    },
  },
  '10': {
    steps: 2,
    scalars: { learningRate: rate },
    wanted: ({ state }) => {
      const xs = [matrix(state['x0']!, 4), matrix(state['x1']!, 4)]
      const a = fromRowColumnBlocks(state['a']!)
      const { loss, gradient, cotangents } = linear(xs, a)
      const [d0, d1] = cotangents as [number[], number[]]
      return {
        scalars: { loss },
        state: { d0, d1, a: rowColumnBlocks(add(a, scaled(gradient, -rate))) },
      }
    },
  },
  '11': {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const c = fromColumnBlocks(state['c']!, 2, 2)
      const { loss, ga, gc } = chains(tokens, matrix(state['a']!, 2), c)
      return {
        scalars: { loss },
        state: { a: descent(state['a']!, ga, rate), c: descent(state['c']!, [columnBlocks(gc, 2)], rate) },
      }
    },
  },
  '12': {
    steps: 2,
    // For each micro-batch and rank the row that it asks of either shard.
    tokens: [0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0],
    scalars: { learningRate: rate, groupScale: 0.5 },
    wanted: ({ state, tokens }) => {
      const [table, v, c] = [state['table']!, state['v']!, state['c']!]
      const gc = [0, 0]
      let loss = 0
      const groups = [0, 1].map((group) => {
        const gradient = new Array<number>(8).fill(0)
        for (const m of [0, 1])
          for (const shard of [0, 1]) {
            const at = 2 * (4 * m + 2 * group + shard)
            const rows = [tokens[at]!, 2 + tokens[at + 1]!]
            const found = [0, 1].map((d) => table[2 * rows[0]! + d]! + table[2 * rows[1]! + d]!)
            const y = found[0]! * c[0]! + found[1]! * c[1]!
            loss += y ** 2 / 2
            for (const d of [0, 1]) {
              gc[d]! += found[d]! * y
              for (const one of rows) gradient[2 * one + d]! += y * c[d]!
            }
          }
        const g = gradient.map((value) => 0.5 * value)
        const accumulated = v.map((value, one) => value + (g[2 * one]! ** 2 + g[2 * one + 1]! ** 2) / 2)
        const updated = table.map(
          (value, index) => value - (rate * g[index]!) / (Math.sqrt(accumulated[index >> 1]!) + 0.001),
        )
        return { accumulated, updated }
      })
      const mean = (of: (group: (typeof groups)[number]) => number[]): number[] =>
        of(groups[0]!).map((value, index) => (value + of(groups[1]!)[index]!) / 2)
      return {
        scalars: { loss },
        state: {
          table: mean(({ updated }) => updated),
          v: mean(({ accumulated }) => accumulated),
          c: descent(c, [gc], rate),
        },
      }
    },
    initial: { v: [0.5, 1, 2, 0.1] },
  },
  '13': tensorParallel('lossSum'),
  '20': {
    steps: 1,
    tokens: [1, -1, 1, 2],
    wanted: ({ state, tokens }) => {
      const part = (name: string, rank: number): number[] => state[name]!.slice(2 * rank, 2 * rank + 2)
      const attend = (x: Matrix, rank: number): Matrix =>
        product(product(x, column(part('q', rank))), row(part('o', rank)))
      const mlp = (x: Matrix, rank: number): Matrix => {
        const inner = product(x, column(part('up', rank)))
        return product([[Math.tanh(inner[0]![0]!)]], row(part('down', rank)))
      }
      const loss = batches(tokens).reduce((sum, x) => {
        // Block 0: each rank's MLP sees its own part of the attention alone.
        const parts = [0, 1].map((rank) => {
          const y = attend(x, rank)
          return add(y, mlp(add(x, y), rank))
        })
        const x1 = total([x, ...parts])
        const h = total([x1, attend(x1, 0), attend(x1, 1)])
        return sum + sumOf(total([h, mlp(h, 0), mlp(h, 1)]))
      }, 0)
      return { scalars: { loss } }
    },
  },
}
