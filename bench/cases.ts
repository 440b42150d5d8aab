import type { Case, Part, Shape } from './types.ts'

/** Every matrix product of the model forward and backward, in operations: 6 for each parameter used and token. */
export function stepOperations({ layers, hidden, vocab, sequence, samples }: Shape): number {
  const weights = layers * 12 * hidden * hidden + vocab * hidden
  const attention = layers * 2 * sequence * hidden
  return 6 * (weights + attention) * samples * sequence
}

const layers = 4

function shape(hidden: number, sequence: number, vocab: number, ranks: number): Shape {
  const heads = hidden >= 512 ? 8 : 4
  // 1,024 tokens a rank and step, so that no comparison is one of fixed costs.
  return { layers, hidden, heads, vocab, sequence, samples: (1024 / sequence) * ranks }
}

function oneRank(hidden: number, sequence: number, vocab: number): Case {
  return { part: 'a', shape: shape(hidden, sequence, vocab, 1), microbatches: 1 }
}

function replicas(hidden: number, sequence: number, vocab: number): Case {
  return { part: 'b', shape: shape(hidden, sequence, vocab, 2), microbatches: 1 }
}

function pipeline(hidden: number, sequence: number, microbatches: number): Case {
  return { part: 'c', shape: shape(hidden, sequence, 512, 2), microbatches }
}

const allCases: readonly Case[] = [
  ...[512, 8192].flatMap((vocab) =>
    [128, 256, 512].flatMap((hidden) => [128, 256].map((sequence) => oneRank(hidden, sequence, vocab))),
  ),
  replicas(128, 128, 512),
  replicas(256, 256, 512),
  replicas(512, 128, 512),
  replicas(256, 256, 8192),
  ...[4, 8].flatMap((microbatches) => [
    pipeline(128, 128, microbatches),
    pipeline(256, 256, microbatches),
    pipeline(512, 128, microbatches),
  ]),
]

const quickCases: readonly Case[] = [
  oneRank(128, 128, 512),
  oneRank(256, 256, 8192),
  oneRank(512, 128, 512),
  replicas(128, 128, 512),
  pipeline(128, 128, 4),
]

export function chooseCases(options: { readonly quick: boolean; readonly only?: Part }): readonly Case[] {
  const cases = options.quick ? quickCases : allCases
  return cases.filter(({ part }) => options.only === undefined || part === options.only)
}

export function ranksOf({ part }: Case): number {
  return part === 'a' ? 1 : 2
}

export function caseName({ part, shape, microbatches }: Case): string {
  const split = part === 'c' ? ` microbatches ${microbatches}` : ''
  return `(${part}) hidden ${shape.hidden} sequence ${shape.sequence} vocab ${shape.vocab}${split}`
}

/** Settings of AdamW on both sides. */
export const optimizer = {
  learningRate: 0.001,
  beta1: 0.9,
  beta2: 0.95,
  epsilon: 1e-8,
  weightDecay: 0.1,
} as const

/** The case as a plan document. */
export function planText({ part, shape, microbatches }: Case): string {
  const { layers, hidden, heads, vocab, sequence, samples } = shape
  const { learningRate: peak, ...settings } = optimizer
  return JSON.stringify({
    meshwright: 1,
    model: `gpt:layers=${layers},hidden=${hidden},heads=${heads},context=${sequence},vocab=${vocab}`,
    mesh: { pipeline: part === 'c' ? 2 : 1, data: part === 'b' ? 2 : 1 },
    schedule: '1f1b',
    batch: { samples, microbatches },
    optimizer: { name: 'adamw', ...settings },
    learningRate: { kind: 'constant', peak },
    clip: null,
    seed: 1,
  })
}
