import { describe, expect, test } from 'vitest'
import type { Compiled } from '../src/cli/prepare.ts'
import type { RankCounters } from '../src/engine/types.ts'
import { type Program, readInstructions } from '../src/program/index.ts'
import { phaseCosts, simulateProgram } from '../src/simulate/index.ts'
import { compilePlan, programOf, randomBatches, runOn } from './support/trainingCase.ts'

const [layers, samples, microbatches, sequence, hidden, heads, kvHeads] = [2, 2, 2, 12, 16, 8, 4]
const [mlp, vocabulary] = [24, 48]
const sizes = `layers=${layers},hidden=${hidden},heads=${heads},kvHeads=${kvHeads},context=${sequence},vocab=${vocabulary},tied=false`
const llama = `llama:${sizes},mlp=${mlp}`
const double = 8
/** Bytes of the residual stream of a micro-batch, of its keys, and of a number for each of its tokens. */
const tokens = samples * sequence
const stream = tokens * hidden * double
const keys = tokens * kvHeads * (hidden / heads) * double
const numbers = tokens * double

type Counts = RankCounters['collectives']

async function run(mesh: Record<string, unknown>, layout: unknown, model: string = llama) {
  const compiled = compilePlan({
    meshwright: 1,
    model,
    mesh,
    layout,
    batch: { samples: samples * microbatches * ((mesh['data'] as number | undefined) ?? 1), microbatches },
    dtype: 'f64',
    // All gradients in one bucket.
    reduction: { bucketBytes: 2 ** 30 },
  })
  const program = programOf(compiled, {})
  const [record] = await runOn('emulator', compiled, randomBatches(compiled, 1), program)
  const { ranks } = record!.result
  expectPredicted(program, ranks)
  // Every rank does the same.
  for (const { collectives, sends } of ranks) {
    expect(collectives).toEqual(ranks[0]!.collectives)
    expect(sends).toEqual({ calls: 0, bytes: 0 })
  }
  return { compiled, program, counts: ranks[0]!.collectives, ofStep: atEndOfStep(program) }
}

/** What was known before a step was run. */
function expectPredicted(program: Program, ranks: readonly RankCounters[]): void {
  const { bytes, calls } = simulateProgram(program, phaseCosts({ F: 1, I: 1, W: 1 }, 1), { engine: 'local' })
  const named = ['allReduce', 'allGather', 'reduceScatter']
  const total = (kind: string, of: 'calls' | 'wireBytes'): number =>
    ranks.reduce(
      (sum, { collectives }) =>
        sum +
        Object.entries(collectives).reduce(
          (own, [name, counted]) =>
            own + (name === kind || (kind === 'other' && !named.includes(name)) ? counted[of] : 0),
          0,
        ),
      0,
    )
  for (const kind of [...named, 'other'] as const) {
    expect(bytes[kind as keyof typeof bytes]).toBeCloseTo(total(kind, 'wireBytes'), 6)
    expect(calls[kind as keyof typeof calls]).toBe(total(kind, 'calls'))
  }
}

/** How often something is reduced that belongs to no micro-batch, by the axes over which it is. */
function atEndOfStep({ groups, roles: [role] }: Program): Readonly<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const instruction of readInstructions(role!.code)) {
    if (instruction.kind !== 'collective') continue
    const values = instruction.parts.map(({ source }) => role!.values[source.value]!)
    if (values.some(({ microbatch }) => microbatch !== undefined)) continue
    const axes = groups[instruction.group]!.axes.join(' ')
    found[axes] = (found[axes] ?? 0) + 1
  }
  return found
}

/** Bytes of the gradients of some parameters. */
function gradientBytes({ model }: Compiled, matches: (name: string) => boolean = () => true): number {
  return model.parameters
    .filter(({ name }) => matches(name))
    .reduce((sum, { shape }) => sum + double * shape.reduce((a, b) => a * b, 1), 0)
}

const isNorm = (name: string): boolean => /norm/.test(name)

/** Of collectives of n ranks that are no shifts: what each puts on the wire where it runs around a ring. */
function counted(calls: number, payloadBytes: number, share: number): Counts[string] {
  return { calls, payloadBytes, wireBytes: expect.closeTo(share * payloadBytes, 6) as number }
}

describe('a step over tensor', () => {
  /** Two each way for each layer, one for the embedding, one for the derivative of the head's input. */
  const sums = 4 * layers + 2

  test.each([2, 4])('of %i ranks adds up the stream four times a layer', async (n) => {
    const { counts } = await run({ tensor: n }, null)
    // Of each token the largest logit and the sum of exponentials; at the end the loss and the norm of the gradients.
    const calls = microbatches * (sums + 2) + 2
    const payload = microbatches * (sums * stream + 2 * numbers) + 2 * double
    expect(counts).toEqual({ allReduce: counted(calls, payload, (2 * (n - 1)) / n) })
  })

  test.each([2, 4])('of %i ranks with a cut stream scatters and gathers as much', async (n) => {
    const { counts, compiled, ofStep } = await run({ tensor: n }, { sequence: true })
    const share = (n - 1) / n
    expect(counts['reduceScatter']).toEqual(counted(microbatches * sums, microbatches * sums * stream, share))
    // Once more for the gradient of the embedding's rows; what the first product of a pair takes is gathered again for the
    // gradient of its weight (Korthikanti et al. 2022, section 4.2.2), together with a cotangent.
    const gathered = sums + 1 + 2 * layers
    expect(counts['allGather']).toEqual(
      counted(microbatches * (sums + 1), microbatches * gathered * stream, share),
    )
    // Norms see a part of the sequence.
    const norms = gradientBytes(compiled, isNorm)
    expect(counts['allReduce']).toEqual(
      counted(2 * microbatches + 3, 2 * microbatches * numbers + norms + 2 * double, 2 * share),
    )
    expect(ofStep).toEqual({ tensor: 2, 'pipeline data tensor': 1 })
  })

  test('adds gradients over replicas and tensor in one go', async () => {
    const { counts, compiled, ofStep } = await run({ data: 2, tensor: 2 }, { sequence: true })
    expect(ofStep).toEqual({ 'data tensor': 2, data: 1, 'pipeline data tensor': 1 })
    const norms = gradientBytes(compiled, isNorm)
    const matrices = gradientBytes(compiled, (name) => !isNorm(name)) / 2
    const { payloadBytes, wireBytes } = counts['allReduce']!
    expect(payloadBytes).toBe(2 * microbatches * numbers + norms + matrices + 2 * double)
    // Over 4 ranks norms, loss and the norm of gradients, over 2 the rest.
    const wide = norms + 2 * double
    expect(wireBytes).toBeCloseTo((2 * 3 * wide) / 4 + (payloadBytes - wide), 6)
  })
})

describe('a step over context', () => {
  /** Every rank has terms of all gradients, and of the loss. */
  const expectSums = (compiled: Compiled, counts: Counts, n: number): void => {
    const payload = gradientBytes(compiled) + 2 * double
    expect(counts['allReduce']).toEqual(counted(3, payload, (2 * (n - 1)) / n))
  }

  test.each([
    [2, true],
    [3, false],
    [3, true],
  ])('of %i ranks, zig-zag %s, passes keys and values around a ring', async (n, zigzag) => {
    const { compiled, counts, ofStep } = await run({ context: n }, { context: 'ring', zigzag })
    expectSums(compiled, counts, n)
    expect(ofStep).toEqual({ context: 2, 'pipeline data context': 1 })
    // Keys with values, forward, and with their cotangents, back.
    const hops = microbatches * layers * (n - 1)
    const bytes = (4 * hops * keys) / n
    expect(counts['permute']).toEqual({ calls: 2 * hops, payloadBytes: bytes, wireBytes: bytes })
    expect(Object.keys(counts).sort()).toEqual(['allReduce', 'permute'])
  })

  test('of 3 ranks gathers keys and values, for the backward again, and scatters their cotangents', async () => {
    const { compiled, counts } = await run({ context: 3 }, 'gather')
    expectSums(compiled, counts, 3)
    const bytes = microbatches * layers * 2 * keys
    expect(counts['allGather']!.payloadBytes).toBe(2 * bytes)
    expect(counts['allGather']!.wireBytes).toBeCloseTo((2 / 3) * 2 * bytes, 6)
    expect(counts['reduceScatter']).toEqual(counted(microbatches * layers, bytes, 2 / 3))
  })

  test.each([2, 4])('of %i ranks exchanges tokens for heads', async (n) => {
    const { compiled, counts } = await run({ context: n }, 'ulysses')
    expectSums(compiled, counts, n)
    // Queries, keys, values and results; back their cotangents, and for each query a sum over what its result was worth.
    const bytes = (microbatches * layers * (2 * (2 * stream + 2 * keys) + heads * numbers)) / n
    expect(counts['allToAll']).toEqual(counted(microbatches * layers * 4, bytes, (n - 1) / n))
  })
})

describe('a step over experts', () => {
  const moe = `moe:${sizes},experts=4,topk=2,expertMlp=6`

  test.each([2, 4])('of %i ranks takes slots to experts and back', async (n) => {
    const { compiled, counts } = await run({ data: n, expert: n }, null, moe)
    // A slot for every token, so that none is dropped: [samples, experts, tokens, embed] there and back, each way.
    const slots = samples * 4 * sequence * hidden * double
    const bytes = microbatches * layers * 4 * slots
    expect(counts['allToAll']).toEqual(counted(microbatches * layers * 4, bytes, (n - 1) / n))
    // An expert's gradient is whole where it is.
    const dense = gradientBytes(compiled, (name) => !/experts/.test(name))
    expect(counts['allReduce']!.payloadBytes).toBe(dense + 2 * double)
    expect(counts['allReduce']!.wireBytes).toBeCloseTo(((2 * (n - 1)) / n) * (dense + 2 * double), 6)
    expect(Object.keys(counts).sort()).toEqual(['allReduce', 'allToAll'])
  })
})
