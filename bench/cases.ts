import { cpus } from 'node:os'
import type { Case, Part, Shape } from './types.ts'

/** Every matrix product of the model forward and backward, in operations: 6 for each parameter used and token. */
export function stepOperations(shape: Shape): number {
  const { family, layers, hidden, heads, kvHeads, mlp, vocab, sequence, samples } = shape
  const attentionWeights = 2 * hidden * hidden + (2 * hidden * hidden * kvHeads) / heads
  const feedForwardWeights = (family === 'llama' ? 3 : 2) * hidden * mlp
  const weights = layers * (attentionWeights + feedForwardWeights) + vocab * hidden
  const attention = layers * 2 * sequence * hidden
  return 6 * (weights + attention) * samples * sequence
}

const layers = 4
const tokens = 1024

/** 1,024 tokens a rank and step, so that no comparison is one of fixed costs. */
function gpt(hidden: number, sequence: number, vocab: number, ranks: number): Shape {
  const heads = hidden >= 512 ? 8 : 4
  const samples = (tokens / sequence) * ranks
  return { family: 'gpt', layers, hidden, heads, kvHeads: heads, mlp: 4 * hidden, vocab, sequence, samples }
}

/** 1,024 tokens a step: all ranks have all of them. */
function llama(hidden: number, sequence: number, vocab: number): Shape {
  const mlp = Math.ceil((hidden * 8) / 3 / 64) * 64
  const samples = tokens / sequence
  return { family: 'llama', layers, hidden, heads: 8, kvHeads: 4, mlp, vocab, sequence, samples }
}

const plain = { ranks: 1, microbatches: 1, sequenceParallel: false } as const

function oneRank(hidden: number, sequence: number, vocab: number): Case {
  return { ...plain, part: 'a', shape: gpt(hidden, sequence, vocab, 1) }
}

function replicas(hidden: number, sequence: number, vocab: number): Case {
  return { ...plain, part: 'b', shape: gpt(hidden, sequence, vocab, 2), ranks: 2 }
}

function pipeline(hidden: number, sequence: number, microbatches: number): Case {
  return { ...plain, part: 'c', shape: gpt(hidden, sequence, 512, 2), ranks: 2, microbatches }
}

/** The same model on one rank too, which says what cutting its layers gains on either side. */
function tensor(hidden: number, sequence: number, vocab: number): readonly Case[] {
  const whole: Case = { ...plain, part: 'd', shape: llama(hidden, sequence, vocab) }
  const cut = [2, 4].filter((ranks) => ranks <= Math.max(2, cpus().length))
  return [
    whole,
    ...cut.flatMap((ranks) => [
      { ...whole, ranks },
      { ...whole, ranks, sequenceParallel: true },
    ]),
  ]
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
  ...tensor(256, 128, 512),
  ...tensor(512, 256, 512),
  ...tensor(512, 128, 8192),
]

const quickCases: readonly Case[] = [
  oneRank(128, 128, 512),
  oneRank(256, 256, 8192),
  oneRank(512, 128, 512),
  replicas(128, 128, 512),
  pipeline(128, 128, 4),
  ...tensor(256, 128, 512).slice(0, 2),
]

export function chooseCases(options: { readonly quick: boolean; readonly only?: Part }): readonly Case[] {
  const cases = options.quick ? quickCases : allCases
  return cases.filter(({ part }) => options.only === undefined || part === options.only)
}

export function caseName({ part, shape, ranks, microbatches, sequenceParallel }: Case): string {
  const { hidden, sequence, vocab } = shape
  const split = part === 'c' ? ` microbatches ${microbatches}` : part === 'd' ? ` ranks ${ranks}` : ''
  return `(${part}) hidden ${hidden} sequence ${sequence} vocab ${vocab}${split}${sequenceParallel ? ' sequence parallel' : ''}`
}

/** What both sides' models have in common beside their sizes. */
export const modelNumbers = { epsilon: 1e-5, ropeTheta: 10_000 } as const

/** Settings of AdamW on both sides. */
export const optimizer = {
  learningRate: 0.001,
  beta1: 0.9,
  beta2: 0.95,
  epsilon: 1e-8,
  weightDecay: 0.1,
} as const

/** The case as a plan document. */
export function planText({ part, shape, ranks, microbatches, sequenceParallel }: Case): string {
  const { learningRate: peak, ...settings } = optimizer
  return JSON.stringify({
    meshwright: 1,
    model: modelName(shape),
    mesh: {
      pipeline: part === 'c' ? ranks : 1,
      data: part === 'b' ? ranks : 1,
      ...(part === 'd' ? { tensor: ranks } : {}),
    },
    ...(part === 'd' && ranks > 1
      ? { layout: { tensor: 'megatron', sequence: sequenceParallel, vocabulary: true } }
      : {}),
    schedule: '1f1b',
    batch: { samples: shape.samples, microbatches },
    optimizer: { name: 'adamw', ...settings },
    learningRate: { kind: 'constant', peak },
    clip: null,
    seed: 1,
  })
}

function modelName({ family, layers, hidden, heads, kvHeads, mlp, vocab, sequence }: Shape): string {
  const { epsilon, ropeTheta } = modelNumbers
  const common = { layers, hidden, heads, mlp, context: sequence, vocab, epsilon }
  const sizes = family === 'gpt' ? common : { ...common, kvHeads, ropeTheta }
  return `${family}:${Object.entries(sizes)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')}`
}
