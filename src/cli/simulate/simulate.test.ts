import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { countParameters } from '../../models/index.ts'
import { loadPlan } from '../setup.ts'
import { simulateDocument } from './document.ts'
import { simulationSvg } from './picture.ts'
import { reportLines } from './report.ts'
import { type Simulated, simulatePlan } from './simulatePlan.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'meshwright-simulate-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const model = 'gpt:layers=6,hidden=16,heads=2,context=8,vocab=64'

interface Document {
  readonly stepSeconds: number
  readonly idleFraction: number
  readonly idleShares: Readonly<Record<string, number>>
  readonly ranks: readonly {
    readonly rank: number
    readonly copies: number
    readonly role: string
    readonly idleSeconds: number
    readonly peakBytes: number
    readonly peakByKind: Readonly<Record<string, number>>
    readonly peakActivations: number
  }[]
  readonly bytes: Readonly<Record<'p2p' | 'allReduce' | 'allGather' | 'reduceScatter', number>>
  readonly calls: Readonly<Record<'p2p' | 'allReduce' | 'allGather' | 'reduceScatter', number>>
  readonly criticalPath: {
    readonly parts: readonly {
      readonly kind: string
      readonly phase: string | null
      readonly seconds: number
    }[]
    readonly secondsByReason: Readonly<Record<string, number>>
  }
  readonly transfers: {
    readonly count: number
    readonly withoutSlack: number
    readonly least: readonly { readonly total: number; readonly local: number }[]
  }
}

async function simulated(set: readonly string[], costs: unknown = 'unit', name = model): Promise<Simulated> {
  let word = 'unit'
  if (costs !== 'unit') {
    word = join(folder, 'costs.json')
    writeFileSync(word, typeof costs === 'string' ? costs : JSON.stringify(costs))
  }
  return simulatePlan(await loadPlan(undefined, { model: name, set: ['clip=null', ...set] }), { costs: word })
}

const documentOf = (one: Simulated): Document => JSON.parse(JSON.stringify(simulateDocument(one))) as Document

async function simulate(set: readonly string[], costs?: unknown): Promise<Document> {
  return documentOf(await simulated(set, costs))
}

const pipeline = (schedule: string, p: number, m: number, data = 1): string[] => [
  `schedule=${schedule}`,
  `mesh={"pipeline": ${p}, "data": ${data}}`,
  `batch={"samples": ${m * data}, "microbatches": ${m}}`,
]

describe('closed forms', () => {
  const [F, I, W] = [3, 2, 4]

  it.each([
    ['gpipe', 2, 4],
    ['gpipe', 3, 2],
    ['1f1b', 2, 4],
    ['1f1b', 3, 5],
    ['1f1b', 1, 3],
  ])(
    '%s on %i ranks, %i micro-batches: (m + p - 1)(F + I + W), of which p - 1 are idle',
    async (schedule, p, m) => {
      const one = await simulate(pipeline(schedule, p, m), { F, I, W })
      expect(one.stepSeconds).toBe((m + p - 1) * (F + I + W))
      expect(one.idleFraction).toBeCloseTo((p - 1) / (m + p - 1), 12)
      for (const { idleSeconds } of one.ranks) expect(idleSeconds).toBe((p - 1) * (F + I + W))
      const shares = Object.values(one.idleShares).reduce((sum, share) => sum + share, 0)
      expect(shares).toBeCloseTo(one.idleFraction, 12)
    },
  )

  test('1F1B holds p - s micro-batches on rank s, GPipe all on all that are not the last', async () => {
    const [p, m] = [3, 6]
    const peaks = async (schedule: string): Promise<number[]> =>
      (await simulate(pipeline(schedule, p, m))).ranks.map(({ peakActivations }) => peakActivations)
    expect(await peaks('1f1b')).toEqual([3, 2, 1])
    expect((await peaks('gpipe')).slice(0, 2)).toEqual([m, m])
  })

  test('what a GPipe keeps for the backward grows with its micro-batches, nothing else does', async () => {
    const [few, many] = [await simulate(pipeline('gpipe', 2, 2)), await simulate(pipeline('gpipe', 2, 6))]
    const [a, b] = [few.ranks[0]!.peakByKind, many.ranks[0]!.peakByKind]
    expect(b['residuals']).toBe(3 * a['residuals']!)
    expect(a['residuals']).toBeGreaterThan(0)
    for (const kind of ['parameters', 'gradients', 'optimizerState']) expect(b[kind]).toBe(a[kind])
  })

  test('a hop delays every border twice', async () => {
    // The first micro-batch goes through all stages and back.
    const hop = 0.25
    const one = await simulate(pipeline('gpipe', 3, 1), { F, I, W, hop })
    expect(one.stepSeconds).toBe(3 * (F + I + W) + 2 * 2 * hop)
    const part = (kind: string): number =>
      one.criticalPath.parts
        .filter((other) => other.kind === kind)
        .reduce((sum, { seconds }) => sum + seconds, 0)
    expect(part('transfer')).toBe(4 * hop)
    expect(part('compute')).toBe(3 * (F + I + W))
    expect(one.transfers).toMatchObject({ count: 4, withoutSlack: 4 })
  })

  test('transfers are one activation and one cotangent for each border and micro-batch', async () => {
    const [p, m] = [3, 4]
    const { bytes, calls } = await simulate(pipeline('1f1b', p, m))
    // A sample of 8 tokens of 16 numbers of 4 bytes.
    const borders = 2 * (p - 1) * m
    expect(calls.p2p).toBe(borders)
    expect(bytes.p2p).toBe(borders * 8 * 16 * 4)
  })

  // SYSTEMS.md: 2, 2, 2 and 3 parameters' worth for one micro-batch; its table by micro-batch in docs/zero.md.
  it.each([
    [1, 1, 1, 1],
    [1, 3, 1, 1],
    [2, 3, 1, 3],
    [3, 3, 6, 3],
  ])(
    'ZeRO-%i, %i micro-batches: %i gathers of all parameters, %i reductions',
    async (stage, m, gathers, reductions) => {
      const n = 2
      // Two stages on the one rank: a forward of one is not followed by its backward.
      const set = [...pipeline('{"name": "looped-bfs", "chunks": 2}', 1, m, n), `zero=${stage}`]
      const one = await simulated(set, 'unit', `${model},tied=false`)
      const { bytes } = documentOf(one)
      const whole = 4 * countParameters(one.compiled.model.parameters)
      expect(bytes.reduceScatter).toBe(n * ((n - 1) / n) * reductions * whole)
      expect(bytes.allGather).toBe(n * ((n - 1) / n) * gathers * whole)
    },
  )
})

describe('ranks', () => {
  test('that do the same are one row; in a large plan one is simulated', async () => {
    const alone = await simulated(pipeline('1f1b', 2, 4))
    const few = await simulated(pipeline('1f1b', 2, 4, 4))
    const many = await simulated(pipeline('1f1b', 2, 4, 1024))
    expect(few.rows.map(({ ranks, role }) => [ranks, role])).toEqual([
      [4, 'pipeline=0'],
      [4, 'pipeline=1'],
    ])
    expect(documentOf(few).ranks).toHaveLength(8)
    expect(documentOf(many).ranks.map(({ copies, rank }) => [rank, copies])).toEqual([
      [0, 1024],
      [1024, 1024],
    ])
    expect(many.result.stepSeconds).toBe(alone.result.stepSeconds)
    expect(reportLines(many, { verbose: false }).join('\n')).toContain('rank 1024 (x 1024)  pipeline=1')
  })

  test('may be thousands, of more parameters each than 32 bits count', async () => {
    const [p, m, data] = [16, 16, 1024]
    const one = documentOf(await simulated(pipeline('1f1b', p, m, data), 'unit', 'llama-3.1-405b'))
    expect(one.stepSeconds).toBe(3 * (m + p - 1) + 1)
    expect(one.ranks.map(({ rank, copies }) => [rank, copies])).toEqual(
      Array.from({ length: p }, (_, stage) => [stage * data, data]),
    )
  })

  test('are few in a drawing, and have their peak and the budget', async () => {
    const many = await simulated([...pipeline('1f1b', 2, 4, 1024), 'memory.deviceBytes=1GiB'])
    const svg = simulationSvg(many, { theme: 'light', width: 800 })
    expect(svg).toContain('width="800"')
    expect(svg.match(/>rank \d+ \(x 1024\)</g)).toHaveLength(2)
    expect(svg).toContain('capacity')
    expect(svg).toContain('units')
    expect(simulationSvg(many, { theme: 'dark' })).not.toBe(simulationSvg(many, { theme: 'light' }))
  })
})

test('a report says each of the numbers, in their unit', async () => {
  const set = pipeline('1f1b', 2, 3, 2)
  const units = reportLines(await simulated(set), { verbose: false }).join('\n')
  // (3 + 1) forwards and backwards and the update.
  expect(units).toMatch(/^step {2}13 units$/m)
  expect(units).toMatch(/^rank 0 \(x 2\) +pipeline=0 +10 +3 +0 +0 +3 +0 +0$/m)
  expect(units).toMatch(/^idle {2}23\.08% of all ranks' time/m)
  const given = reportLines(await simulated(set, { F: 0.001, I: 0.002, W: 0.003 }), { verbose: true })
  const seconds = given.join('\n')
  expect(seconds).toMatch(/^step {2}24 ms$/m)
  expect(seconds).toMatch(/^first steps/m)
  expect(seconds).toMatch(/^least slack/m)
  expect(seconds).toMatch(/^F +1 +1 ms +4\.2%$/m)
  expect(given.every((line) => line === line.trimEnd())).toBe(true)
})

test('times that round are never less than nothing', async () => {
  for (const [p, m] of [
    [1, 7],
    [2, 4],
    [3, 5],
  ] as const) {
    const one = await simulated(pipeline('1f1b', p, m), { F: 0.01, I: 0.011, W: 0.009, hop: 0.001 })
    expect(reportLines(one, { verbose: true }).length).toBeGreaterThan(20)
    const { ranks, transfers } = simulateDocument(one) as unknown as Document
    for (const { idleSeconds } of ranks) expect(idleSeconds).toBeGreaterThanOrEqual(0)
    for (const { total, local } of transfers.least) expect(Math.min(total, local)).toBeGreaterThanOrEqual(0)
  }
})

describe('costs', () => {
  const times = { F: 1, I: 1, W: 1 }

  it.each([
    ['no JSON', '{"F": 1', /not JSON/],
    ['a list', [1, 2], /object/],
    ['nothing', {}, /F is missing/],
    ['none for weights', { F: 1, I: 1 }, /W is missing/],
    ['a negative time', { ...times, F: -1 }, /F is -1/],
    ['a text', { ...times, hop: '1 s' }, /hop is "1 s"/],
    ['no number', '{"F": 1e999, "I": 1, "W": 1}', /F is Infinity/],
    ['a time past all sums', { ...times, F: 1e308 }, /F is 1e\+308/],
    ['an unknown key', { ...times, B: 2 }, /no cost "B"/],
    ['a list for other stages', { ...times, F: [1, 2, 3] }, /3 stages of 2/],
    ['a table of another version', { meshwrightCosts: 2 }, /version 1/],
  ])('of %s are refused', async (_, costs, message) => {
    await expect(simulate(pipeline('1f1b', 2, 4), costs)).rejects.toMatchObject({
      code: 'SIMULATE_COSTS',
      exitCode: 2,
      message: expect.stringMatching(message),
      at: { file: join(folder, 'costs.json') },
    })
  })

  test('that were measured have to be of this plan', async () => {
    const line = { seconds: 1 }
    const table = {
      meshwrightCosts: 1,
      machine: { name: 'another', cores: 2, software: {} },
      tasks: {},
      transfer: { send: line, receive: line },
      wake: 0,
      collectives: {},
      moves: { in: line, out: line },
    }
    await expect(simulate(pipeline('1f1b', 2, 4), table)).rejects.toMatchObject({
      code: 'SIMULATE_COSTS',
      message: expect.stringMatching(/was not measured/),
      at: { file: join(folder, 'costs.json') },
    })
  })
})
