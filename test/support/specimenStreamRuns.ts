import {
  adam,
  batches,
  chains,
  column,
  descent,
  eight,
  halfSquares,
  linear,
  type Matrix,
  matrix,
  product,
  rate,
  type SpecimenRun,
} from './specimenMathematics.ts'

/** Of systems that stream: blocks, parameters, gradients, batches. By their numbers. */
export const streamRuns: Readonly<Record<string, SpecimenRun>> = {
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
