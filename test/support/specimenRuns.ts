/** What running a specimen must give, by the plain mathematics of the system that it shows, serially and without a Program. */

type Matrix = readonly (readonly number[])[]
type Values = Record<string, readonly number[]>

export interface StepGiven {
  /** As the step finds it; `older[k]` is what it was k + 1 steps before. */
  readonly state: Values
  readonly older: readonly Values[]
  readonly tokens: readonly number[]
  readonly scalars: Readonly<Record<string, number>>
}

export interface StepWanted {
  readonly state?: Values
  readonly scalars?: Readonly<Record<string, number>>
}

export interface SpecimenRun {
  readonly steps: number
  /** Ids of one step; the next steps have them rotated. */
  readonly tokens?: readonly number[]
  readonly scalars?: Readonly<Record<string, number>>
  /** State that is not to be the filler's: all of it is otherwise given small numbers. */
  readonly initial?: Values
  readonly wanted: (given: StepGiven) => StepWanted
  readonly tolerance?: number
}

// Matrices ------------------------------------------------------------------------------------------------------

function matrix(values: readonly number[], columns: number): Matrix {
  return Array.from({ length: values.length / columns }, (_, row) =>
    values.slice(row * columns, (row + 1) * columns),
  )
}

function product(a: Matrix, b: Matrix): Matrix {
  return a.map((row) => b[0]!.map((_, column) => row.reduce((sum, x, k) => sum + x * b[k]![column]!, 0)))
}

function transposed(a: Matrix): Matrix {
  return a[0]!.map((_, column) => a.map((row) => row[column]!))
}

function combined(a: Matrix, b: Matrix, of: (x: number, y: number) => number): Matrix {
  return a.map((row, i) => row.map((x, j) => of(x, b[i]![j]!)))
}

const add = (a: Matrix, b: Matrix): Matrix => combined(a, b, (x, y) => x + y)
const times = (a: Matrix, b: Matrix): Matrix => combined(a, b, (x, y) => x * y)
const scaled = (a: Matrix, factor: number): Matrix => a.map((row) => row.map((x) => factor * x))
const sumOf = (a: Matrix): number => a.flat().reduce((sum, x) => sum + x, 0)
const halfSquares = (a: Matrix): number => sumOf(times(a, a)) / 2
const total = (list: readonly Matrix[]): Matrix => list.reduce(add)

/** `values` less `rate` times `gradient`. */
function descent(values: readonly number[], gradient: Matrix, rate: number): number[] {
  const steps = gradient.flat()
  return values.map((x, index) => x - rate * steps[index]!)
}

/** Micro-batches of `rows` samples of `width` features. */
function batches(tokens: readonly number[], width = 2, count = 2): Matrix[] {
  const each = tokens.length / count
  return Array.from({ length: count }, (_, m) => matrix(tokens.slice(m * each, (m + 1) * each), width))
}

/** Columns `c * width` and on of every row, one block after the other; and back. */
function columnBlocks(a: Matrix, count: number): number[] {
  const width = a[0]!.length / count
  return Array.from({ length: count }, (_, c) => a.map((row) => row.slice(c * width, (c + 1) * width))).flat(
    3,
  )
}

function fromColumnBlocks(values: readonly number[], rows: number, count: number): Matrix {
  const width = values.length / rows / count
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: count }, (_, c) => {
      const start = c * rows * width + row * width
      return values.slice(start, start + width)
    }).flat(),
  )
}

// The models ------------------------------------------------------------------------------------------------------

/** loss = half the sum of squares of X A C. */
function chain(x: Matrix, a: Matrix, c: Matrix, back: Matrix = c): { loss: number; ga: Matrix; gc: Matrix } {
  const hidden = product(x, a)
  const y = product(hidden, c)
  const dHidden = product(y, transposed(back))
  return { loss: halfSquares(y), ga: product(transposed(x), dHidden), gc: product(transposed(hidden), y) }
}

function chains(tokens: readonly number[], a: Matrix, c: Matrix): { loss: number; ga: Matrix; gc: Matrix } {
  const all = batches(tokens).map((x) => chain(x, a, c))
  return {
    loss: all.reduce((sum, { loss }) => sum + loss, 0),
    ga: total(all.map(({ ga }) => ga)),
    gc: total(all.map(({ gc }) => gc)),
  }
}

/** loss = half the sum of squares of X A. */
function linear(
  xs: readonly Matrix[],
  a: Matrix,
): { loss: number; gradient: Matrix; cotangents: number[][] } {
  const ys = xs.map((x) => product(x, a))
  return {
    cotangents: ys.map((y) => product(y, transposed(a)).flat()),
    loss: ys.reduce((sum, y) => sum + halfSquares(y), 0),
    gradient: total(ys.map((y, m) => product(transposed(xs[m]!), y))),
  }
}

const rate = 0.01
const eight = [1, 2, -1, 3, 2, 0, 1, -2]

/** Two linear stages, named as a pipeline has them. */
const pipelined: SpecimenRun = {
  steps: 2,
  tokens: eight,
  scalars: { learningRate: rate },
  wanted: ({ state, tokens }) => {
    const [a, c] = [state['a.weight']!, state['c.weight']!]
    const { loss, ga, gc } = chains(tokens, matrix(a, 2), matrix(c, 1))
    return {
      scalars: { loss },
      state: { 'a.weight': descent(a, ga, rate), 'c.weight': descent(c, gc, rate) },
    }
  },
}

/** Columns of A and rows of C on two ranks. */
function tensorParallel(lossName: string): SpecimenRun {
  return {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const a = fromColumnBlocks(state['a']!, 2, 2)
      const { loss, ga, gc } = chains(tokens, a, matrix(state['c']!, 1))
      return {
        scalars: { [lossName]: loss },
        state: { a: descent(state['a']!, [columnBlocks(ga, 2)], rate), c: descent(state['c']!, gc, rate) },
      }
    },
  }
}

/** Blocks [2, 1] of a 4 x 2 matrix, those of the upper half first. */
function fromRowColumnBlocks(values: readonly number[]): Matrix {
  return Array.from({ length: 4 }, (_, row) =>
    [0, 1].map((column) => values[4 * Math.floor(row / 2) + 2 * column + (row % 2)]!),
  )
}

function rowColumnBlocks(a: Matrix): number[] {
  return [0, 2].flatMap((row) => [0, 1].flatMap((column) => [a[row]![column]!, a[row + 1]![column]!]))
}

/** One linear map and causal attention (h k') k without a softmax. */
function sliced(x: Matrix, w: Matrix): Matrix {
  const h = product(x, w)
  return h.map((row, s) =>
    h
      .slice(0, s + 1)
      .map((key) => {
        const score = row.reduce((sum, value, d) => sum + value * key[d]!, 0)
        return key.map((value) => score * value)
      })
      .reduce((a, b) => a.map((value, d) => value + b[d]!)),
  )
}

/** The derivative of `loss` at `at`, by differences of the fourth order. */
function differences(at: readonly number[], loss: (values: readonly number[]) => number): Matrix {
  const h = 1e-3
  return [
    at.map((value, index) => {
      const moved = (by: number): number => loss(at.with(index, value + by))
      return (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
    }),
  ]
}

function adam(
  state: Values,
  name: string,
  gradient: readonly number[],
  step: { rate: number; scale: number },
): Values {
  const m = state[`m${name}`]!.map((value, index) => 0.9 * value + 0.1 * gradient[index]!)
  const v = state[`v${name}`]!.map((value, index) => 0.95 * value + 0.05 * gradient[index]! ** 2)
  const master = state[`master${name}`]!.map(
    (value, index) => value - (step.rate * m[index]!) / (step.scale * Math.sqrt(v[index]!) + 0.001),
  )
  return { [`m${name}`]: m, [`v${name}`]: v, [`master${name}`]: master, [name]: master }
}

const row = (values: readonly number[]): Matrix => [values]
const column = (values: readonly number[]): Matrix => values.map((value) => [value])

/** By the number of the system. */
export const specimenRuns: Readonly<Record<string, SpecimenRun>> = {
  '01': {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const weights = ['a', 'b', 'c', 'e'].map((name) =>
        matrix(state[`${name}.weight`]!, name === 'e' ? 1 : 2),
      )
      const parts = batches(tokens).map((x) => {
        const values = [x]
        for (const weight of weights) values.push(product(values.at(-1)!, weight))
        let cotangent = values.at(-1)!
        const gradients = weights.map((): Matrix => [])
        for (let stage = 3; stage >= 0; stage--) {
          gradients[stage] = product(transposed(values[stage]!), cotangent)
          cotangent = product(cotangent, transposed(weights[stage]!))
        }
        return { loss: halfSquares(values.at(-1)!), gradients }
      })
      return {
        scalars: { loss: parts.reduce((sum, { loss }) => sum + loss, 0) },
        state: Object.fromEntries(
          ['a', 'b', 'c', 'e'].map((name, stage) => [
            `${name}.weight`,
            descent(state[`${name}.weight`]!, total(parts.map(({ gradients }) => gradients[stage]!)), rate),
          ]),
        ),
      }
    },
  },
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
  '04': {
    steps: 3,
    tokens: eight,
    scalars: { learningRate: rate / 2 },
    wanted: ({ state, older, tokens }) => {
      const [w0, w1] = [state['w0']!, state['w1']!]
      const before = (older[0] ?? state)['w0']!
      const [first, second] = batches(tokens) as [Matrix, Matrix]
      const both = [
        chain(first, matrix(before, 2), matrix(w1, 1)),
        chain(second, matrix(w0, 2), matrix(w1, 1)),
      ]
      return {
        scalars: { loss: both[0]!.loss + both[1]!.loss },
        state: {
          w0: descent(w0, total(both.map(({ ga }) => ga)), rate / 2),
          w1: descent(w1, total(both.map(({ gc }) => gc)), rate / 2),
        },
      }
    },
  },
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
  '07': {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => state[`${name}.weight`]!) as [
        number[],
        number[],
        number[],
      ]
      const parts = batches(tokens).map((x) => {
        const [left, right] = [product(x, matrix(a, 2)), product(x, matrix(b, 2))]
        const joined = times(left, right)
        const y = product(joined, matrix(c, 1))
        const dJoined = product(y, transposed(matrix(c, 1)))
        return {
          loss: halfSquares(y),
          ga: product(transposed(x), times(dJoined, right)),
          gb: product(transposed(x), times(dJoined, left)),
          gc: product(transposed(joined), y),
        }
      })
      return {
        scalars: { loss: parts.reduce((sum, { loss }) => sum + loss, 0) },
        state: {
          'a.weight': descent(a, total(parts.map(({ ga }) => ga)), rate),
          'b.weight': descent(b, total(parts.map(({ gb }) => gb)), rate),
          'c.weight': descent(c, total(parts.map(({ gc }) => gc)), rate),
        },
      }
    },
  },
  '08': {
    steps: 2,
    // i, j and k of the two nonzeros of each block.
    initial: { hostIds: [0, 2, 1, 0, 2, 1, 1, 1, 0, 0, 0, 2, 2, 0, 1, 1, 1, 1] },
    wanted: ({ state }) => {
      const result = [0, 0, 0, 0, 0, 0]
      for (let nonzero = 0; nonzero < 6; nonzero++) {
        const at = 6 * Math.floor(nonzero / 2) + (nonzero % 2)
        const [i, j, k] = [0, 2, 4].map((offset) => state['hostIds']![at + offset]!) as [
          number,
          number,
          number,
        ]
        for (let r = 0; r < 2; r++)
          result[2 * i + r]! +=
            state['hostValues']![nonzero]! * state['b']![2 * j + r]! * state['c']![2 * k + r]!
      }
      return { state: { result } }
    },
  },
  '09': {
    steps: 2,
    tokens: [1, 2, -1, 1, 2, 0, 1, -2],
    scalars: { learningRate: rate },
    tolerance: 1e-8,
    wanted: ({ state, tokens }) => {
      const [w0, w1] = [state['w0']!, state['w1']!]
      const loss = (a: readonly number[], b: readonly number[]): number =>
        batches(tokens).reduce(
          (sum, x) => sum + halfSquares(sliced(sliced(x, matrix(a, 2)), matrix(b, 2))),
          0,
        )
      return {
        scalars: { loss: loss(w0, w1) },
        state: {
          w0: descent(
            w0,
            differences(w0, (values) => loss(values, w1)),
            rate,
          ),
          w1: descent(
            w1,
            differences(w1, (values) => loss(w0, values)),
            rate,
          ),
        },
      }
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
  '14': {
    steps: 3,
    tokens: [1, 2, -1, 1],
    scalars: { learningRate: rate, epsilon: 0.05 },
    initial: { g: [0] },
    wanted: ({ state, older, tokens, scalars }) => {
      const epsilon = scalars['epsilon']!
      const before = older[0] ?? state
      const updated = ['0', '1'].map((block) =>
        state[`w${block}`]!.map((w, index) => w - rate * state['g']![0]! * before[`z${block}`]![index]!),
      )
      const loss = (sign: number): number => {
        const [first, second] = updated.map((w, block) =>
          matrix(
            w.map((value, index) => value + sign * epsilon * state[`z${block}`]![index]!),
            2,
          ),
        ) as [Matrix, Matrix]
        return batches(tokens).reduce((sum, x) => {
          const hidden = product(x, first).map((line) => line.map(Math.tanh))
          return sum + halfSquares(product(hidden, second))
        }, 0)
      }
      const next = (z: readonly number[]): number[] => z.map((value) => Math.tanh(3 * value + 1))
      return {
        state: {
          w0: updated[0]!,
          w1: updated[1]!,
          z0: next(state['z0']!),
          z1: next(state['z1']!),
          g: [(loss(1) - loss(-1)) / (2 * epsilon)],
        },
      }
    },
  },
  '15': {
    steps: 4,
    tokens: eight,
    scalars: { rate0: rate / 1.5, rate1: rate },
    initial: { delta1: [0, 0] },
    wanted: ({ state, older, tokens }) => {
      const version = (name: string, age: number): readonly number[] =>
        (age === 0 ? state : (older[Math.min(age, older.length) - 1] ?? state))[name]!
      const [w0, w1, delta] = [state['w0']!, state['w1']!, state['delta1']!]
      const corrected = w1.map((value, index) => value - 0.5 * delta[index]!)
      const parts = batches(tokens).map((x, m) =>
        chain(x, matrix(version('w0', 2 - m), 2), matrix(version('w1', 1 - m), 1), matrix(corrected, 1)),
      )
      const step = total(parts.map(({ gc }) => gc))
        .flat()
        .map((value) => -rate * value)
      return {
        scalars: { loss: parts.reduce((sum, { loss }) => sum + loss, 0) },
        state: {
          w0: descent(w0, total(parts.map(({ ga }) => ga)), rate / 1.5),
          w1: w1.map((value, index) => value + step[index]!),
          delta1: delta.map((value, index) => 0.02 * value + 0.98 * step[index]!),
        },
      }
    },
  },
  '16': pipelined,
  '17': pipelined,
  '18': {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => state[`${name}.weight`]!) as [
        number[],
        number[],
        number[],
      ]
      const parts = batches(tokens).map((x) => {
        const encoded = product(x, matrix(a, 2))
        const decoded = product(encoded, matrix(b, 2))
        const joined = times(encoded, decoded)
        const y = product(joined, matrix(c, 1))
        const dJoined = product(y, transposed(matrix(c, 1)))
        const dDecoded = times(dJoined, encoded)
        const dEncoded = add(times(dJoined, decoded), product(dDecoded, transposed(matrix(b, 2))))
        return {
          loss: halfSquares(y),
          ga: product(transposed(x), dEncoded),
          gb: product(transposed(encoded), dDecoded),
          gc: product(transposed(joined), y),
        }
      })
      return {
        scalars: { loss: parts.reduce((sum, { loss }) => sum + loss, 0) },
        state: {
          'a.weight': descent(a, total(parts.map(({ ga }) => ga)), rate),
          'b.weight': descent(b, total(parts.map(({ gb }) => gb)), rate),
          'c.weight': descent(c, total(parts.map(({ gc }) => gc)), rate),
        },
      }
    },
  },
  '19': {
    steps: 2,
    tokens: eight,
    scalars: { learningRate: rate },
    wanted: ({ state, tokens }) => {
      const jobs = ['A', 'B'].map((name) => linear(batches(tokens), column(state[`w${name}`]!)))
      return {
        scalars: { lossA: jobs[0]!.loss, lossB: jobs[1]!.loss },
        state: {
          wA: descent(state['wA']!, jobs[0]!.gradient, rate),
          wB: descent(state['wB']!, jobs[1]!.gradient, rate),
        },
      }
    },
  },
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
  '21': {
    steps: 4,
    tokens: eight,
    scalars: { rate, scale: 1.5 },
    initial: {
      gradA: [0, 0, 0, 0],
      gradC: [0, 0],
      mA: [0, 0, 0, 0],
      vA: [0, 0, 0, 0],
      mC: [0, 0],
      vC: [0, 0],
    },
    wanted: ({ state, tokens, scalars }) => {
      const { loss, ga, gc } = chains(tokens, matrix(state['A']!, 2), matrix(state['C']!, 1))
      const step = { rate: scalars['rate']!, scale: scalars['scale']! }
      return {
        scalars: { loss },
        state: {
          ...adam(state, 'A', state['gradA']!, step),
          ...adam(state, 'C', state['gradC']!, step),
          gradA: ga.flat(),
          gradC: gc.flat(),
        },
      }
    },
  },
}
