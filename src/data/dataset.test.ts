import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Batch, createDataset, type Dataset } from './dataset.ts'
import type { TokenizedText } from './tokens/text.ts'

/** Token i of the text is i, so that a batch says where it came from. */
function counting(length: number): TokenizedText {
  const tokens = Int32Array.from({ length }, (_, index) => index)
  return { source: 'text', bytes: length, tokens, vocabularySize: length, tokenizer: 'bytes' }
}

const rows = ({ tokens }: Batch, sequence: number): number[] =>
  Array.from({ length: tokens.length / sequence }, (_, row) => tokens[row * sequence]! / sequence)

const shapes = fc.record({
  samples: fc.integer({ min: 2, max: 40 }),
  rest: fc.nat(100),
  sequence: fc.integer({ min: 1, max: 9 }),
  batch: fc.integer({ min: 1, max: 12 }),
  seed: fc.nat(),
  validationFraction: fc.constantFrom(0, 0.01, 0.3, 0.99),
})

function make(shape: typeof shapes extends fc.Arbitrary<infer T> ? T : never): Dataset {
  return createDataset(counting(shape.samples * shape.sequence + 1 + (shape.rest % shape.sequence)), shape)
}

describe('a dataset', () => {
  test('every label is the token after its position', () => {
    fc.assert(
      fc.property(shapes, fc.nat(50), (shape, step) => {
        const { tokens, labels, targets } = make(shape).batchAt(step)
        expect(tokens.length).toBe(shape.batch * shape.sequence)
        expect(targets).toBe(labels.length)
        tokens.forEach((token, index) => {
          expect(labels[index]).toBe(token + 1)
          if (index % shape.sequence > 0) expect(token).toBe(tokens[index - 1]! + 1)
          else expect(token % shape.sequence).toBe(0)
        })
      }),
      { numRuns: 50 },
    )
  })

  test('every epoch has every training sample once, validation has every other sample once', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const dataset = make(shape)
        const { trainingSamples: n, validationSamples } = dataset
        expect(n + validationSamples).toBe(shape.samples)
        const steps = Math.ceil((3 * n) / shape.batch)
        const order = Array.from({ length: steps }, (_, step) =>
          rows(dataset.batchAt(step), shape.sequence),
        ).flat()
        for (let epoch = 0; epoch < 3; epoch++) {
          const sorted = order.slice(epoch * n, (epoch + 1) * n).sort((a, b) => a - b)
          expect(sorted).toEqual(Array.from({ length: n }, (_, index) => index))
        }
        const validation: number[] = []
        for (let index = 0; index < dataset.validationBatches; index++) {
          const { labels, targets, tokens } = dataset.validationBatchAt(index)
          expect(labels.filter((label) => label >= 0).length).toBe(targets)
          validation.push(...rows({ labels, targets, tokens: tokens.subarray(0, targets) }, shape.sequence))
        }
        expect(validation).toEqual(Array.from({ length: validationSamples }, (_, index) => n + index))
      }),
      { numRuns: 50 },
    )
  })

  test('a batch depends on seed and step only', () => {
    const options = { sequence: 4, batch: 6, seed: 5 }
    const straight = createDataset(counting(401), options)
    const all = Array.from({ length: 60 }, (_, step) => straight.batchAt(step))
    const jumping = createDataset(counting(401), options)
    for (const step of [59, 3, 0, 40, 17, 18]) expect(jumping.batchAt(step)).toEqual(all[step])
    const other = createDataset(counting(401), { ...options, seed: 6 })
    expect(other.batchAt(0)).not.toEqual(all[0])
    // The second epoch has another order than the first: 100 samples, so step 50 starts epoch 3.
    expect(rows(all[50]!, 4)).not.toEqual(rows(all[0]!, 4))
  })

  test('positions follow from the step', () => {
    const dataset = createDataset(counting(4 * 10 + 1), { sequence: 4, batch: 3, seed: 0 })
    expect([0, 1, 3, 4, 10].map((step) => dataset.positionAt(step))).toEqual([
      { epoch: 0, sample: 0 },
      { epoch: 0, sample: 3 },
      { epoch: 0, sample: 9 },
      { epoch: 1, sample: 2 },
      { epoch: 3, sample: 0 },
    ])
    expect(dataset.positionAt(2 ** 40)).toEqual({
      epoch: Math.floor((3 * 2 ** 40) / 10),
      sample: (3 * 2 ** 40) % 10,
    })
  })

  test('writes into arrays that are given, shared ones too, and clears what was in them', () => {
    const into = {
      tokens: new Int32Array(new SharedArrayBuffer(32)).fill(9),
      labels: new Int32Array(new SharedArrayBuffer(32)).fill(9),
    }
    const dataset = createDataset(counting(4 * 10 + 1), {
      sequence: 4,
      batch: 2,
      seed: 0,
      validationFraction: 0.3,
    })
    const batch = dataset.batchAt(1, into)
    expect(batch.tokens).toBe(into.tokens)
    expect([...batch.tokens]).toEqual([...dataset.batchAt(1).tokens])
    expect(dataset.validationBatches).toBe(2)
    expect(dataset.validationBatchAt(1, into)).toEqual({
      tokens: Int32Array.of(36, 37, 38, 39, 0, 0, 0, 0),
      labels: Int32Array.of(37, 38, 39, 40, -1, -1, -1, -1),
      targets: 4,
    })
    expect(() => dataset.batchAt(0, { ...into, labels: new Int32Array(7) })).toThrow(
      'internal: a batch of 8 tokens',
    )
  })
})

describe('refusals', () => {
  test('a text shorter than its samples', () => {
    expect(() => createDataset(counting(8), { sequence: 8, batch: 1, seed: 0 })).toThrow(
      expect.objectContaining({
        code: 'DATA_TOO_SHORT',
        message: 'text has 8 tokens; one sample of 8 tokens and the token after it take 9',
      }),
    )
    expect(createDataset(counting(9), { sequence: 8, batch: 1, seed: 0 }).trainingSamples).toBe(1)
    const split = { sequence: 8, batch: 1, seed: 0, validationFraction: 0.1 }
    expect(() => createDataset(counting(16), split)).toThrow(
      /one training and one validation sample .* take 17$/,
    )
    expect(createDataset(counting(17), split)).toMatchObject({ trainingSamples: 1, validationSamples: 1 })
  })

  test('a token beyond the vocabulary', () => {
    expect(() => createDataset(counting(20), { sequence: 4, batch: 1, seed: 0, vocabularySize: 15 })).toThrow(
      expect.objectContaining({
        code: 'DATA_TOKEN_OUT_OF_VOCABULARY',
        message: expect.stringContaining('token 15 at position 15'),
      }),
    )
  })

  test.each([
    { sequence: 0 },
    { sequence: 1.5 },
    { batch: 0 },
    { seed: -1 },
    { validationFraction: 1 },
    { validationFraction: Number.NaN },
  ])('the option %j', (wrong) => {
    expect(() => createDataset(counting(20), { sequence: 4, batch: 1, seed: 0, ...wrong })).toThrow(
      expect.objectContaining({ code: 'DATA_OPTION' }),
    )
  })
})
