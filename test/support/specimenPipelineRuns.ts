import {
  add,
  batches,
  chain,
  descent,
  differences,
  eight,
  halfSquares,
  type Matrix,
  matrix,
  pipelined,
  product,
  rate,
  type SpecimenRun,
  sliced,
  times,
  total,
  transposed,
} from './specimenMathematics.ts'

/** Of systems that cut a model into stages. By their numbers. */
export const pipelineRuns: Readonly<Record<string, SpecimenRun>> = {
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
}
