/** plain mathematics of what the specimens compute, serially and without a Program. */

export type Matrix = readonly (readonly number[])[]
export type Values = Record<string, readonly number[]>

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

export function matrix(values: readonly number[], columns: number): Matrix {
  return Array.from({ length: values.length / columns }, (_, row) =>
    values.slice(row * columns, (row + 1) * columns),
  )
}

export function product(a: Matrix, b: Matrix): Matrix {
  return a.map((row) => b[0]!.map((_, column) => row.reduce((sum, x, k) => sum + x * b[k]![column]!, 0)))
}

export function transposed(a: Matrix): Matrix {
  return a[0]!.map((_, column) => a.map((row) => row[column]!))
}

export function combined(a: Matrix, b: Matrix, of: (x: number, y: number) => number): Matrix {
  return a.map((row, i) => row.map((x, j) => of(x, b[i]![j]!)))
}

export const add = (a: Matrix, b: Matrix): Matrix => combined(a, b, (x, y) => x + y)
export const times = (a: Matrix, b: Matrix): Matrix => combined(a, b, (x, y) => x * y)
export const scaled = (a: Matrix, factor: number): Matrix => a.map((row) => row.map((x) => factor * x))
export const sumOf = (a: Matrix): number => a.flat().reduce((sum, x) => sum + x, 0)
export const halfSquares = (a: Matrix): number => sumOf(times(a, a)) / 2
export const total = (list: readonly Matrix[]): Matrix => list.reduce(add)

/** `values` less `rate` times `gradient`. */
export function descent(values: readonly number[], gradient: Matrix, rate: number): number[] {
  const steps = gradient.flat()
  return values.map((x, index) => x - rate * steps[index]!)
}

/** Micro-batches of `rows` samples of `width` features. */
export function batches(tokens: readonly number[], width = 2, count = 2): Matrix[] {
  const each = tokens.length / count
  return Array.from({ length: count }, (_, m) => matrix(tokens.slice(m * each, (m + 1) * each), width))
}

/** Columns `c * width` and on of every row, one block after the other; and back. */
export function columnBlocks(a: Matrix, count: number): number[] {
  const width = a[0]!.length / count
  return Array.from({ length: count }, (_, c) => a.map((row) => row.slice(c * width, (c + 1) * width))).flat(
    3,
  )
}

export function fromColumnBlocks(values: readonly number[], rows: number, count: number): Matrix {
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
export function chain(
  x: Matrix,
  a: Matrix,
  c: Matrix,
  back: Matrix = c,
): { loss: number; ga: Matrix; gc: Matrix } {
  const hidden = product(x, a)
  const y = product(hidden, c)
  const dHidden = product(y, transposed(back))
  return { loss: halfSquares(y), ga: product(transposed(x), dHidden), gc: product(transposed(hidden), y) }
}

export function chains(
  tokens: readonly number[],
  a: Matrix,
  c: Matrix,
): { loss: number; ga: Matrix; gc: Matrix } {
  const all = batches(tokens).map((x) => chain(x, a, c))
  return {
    loss: all.reduce((sum, { loss }) => sum + loss, 0),
    ga: total(all.map(({ ga }) => ga)),
    gc: total(all.map(({ gc }) => gc)),
  }
}

/** loss = half the sum of squares of X A. */
export function linear(
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

export const rate = 0.01
export const eight: readonly number[] = [1, 2, -1, 3, 2, 0, 1, -2]

/** Two linear stages, named as a pipeline has them. */
export const pipelined: SpecimenRun = {
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
export function tensorParallel(lossName: string): SpecimenRun {
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
export function fromRowColumnBlocks(values: readonly number[]): Matrix {
  return Array.from({ length: 4 }, (_, row) =>
    [0, 1].map((column) => values[4 * Math.floor(row / 2) + 2 * column + (row % 2)]!),
  )
}

export function rowColumnBlocks(a: Matrix): number[] {
  return [0, 2].flatMap((row) => [0, 1].flatMap((column) => [a[row]![column]!, a[row + 1]![column]!]))
}

/** One linear map and causal attention (h k') k without a softmax. */
export function sliced(x: Matrix, w: Matrix): Matrix {
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
export function differences(at: readonly number[], loss: (values: readonly number[]) => number): Matrix {
  const h = 1e-3
  return [
    at.map((value, index) => {
      const moved = (by: number): number => loss(at.with(index, value + by))
      return (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
    }),
  ]
}

export function adam(
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

export const row = (values: readonly number[]): Matrix => [values]
export const column = (values: readonly number[]): Matrix => values.map((value) => [value])
