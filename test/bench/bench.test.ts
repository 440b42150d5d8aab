import { describe, expect, it } from 'vitest'
import { chooseCases, modelNumbers, planText, stepOperations } from '../../bench/cases.ts'
import { benchmarkPage, ratioAtEqualProducts } from '../../bench/page.ts'
import { geometricMean, spread } from '../../bench/statistics.ts'
import type { CaseResult, Report, Shape, SideTimes, Spread } from '../../bench/types.ts'
import { quantile } from '../../src/base/index.ts'
import { markdownTable } from '../../src/cli/markdown.ts'
import { compile } from '../../src/cli/prepare.ts'
import { parsePlan } from '../../src/plan/index.ts'

const exactly = (value: number): Spread => ({ median: value, low: value, high: value })
const took = (seconds: number): SideTimes => ({ seconds: exactly(seconds), peakBytes: 2 ** 20 })

const shape: Shape = {
  family: 'gpt',
  layers: 4,
  hidden: 128,
  heads: 4,
  kvHeads: 4,
  mlp: 512,
  vocab: 512,
  sequence: 128,
  samples: 8,
}
const oneRank: CaseResult = {
  case: { part: 'a', shape, ranks: 1, microbatches: 1, sequenceParallel: false },
  parameters: 876_032,
  stages: [4],
  rounds: 7,
  stepsPerRound: 3,
  ours: took(0.0501),
  torch: { default: took(0.1), fused: took(0.08) },
  ratio: { default: { median: 0.501, low: 0.49, high: 0.52 }, fused: exactly(0.626) },
  overhead: 0.0123,
  product: null,
  lossDifference: 3e-7,
}
const pipeline: CaseResult = {
  ...oneRank,
  case: { ...oneRank.case, part: 'c', shape: { ...shape, samples: 16 }, ranks: 2, microbatches: 8 },
  stages: [3, 1],
  ratio: { default: exactly(0.8), fused: exactly(0.9) },
}
const tensor: CaseResult = {
  ...oneRank,
  case: {
    ...oneRank.case,
    part: 'd',
    shape: { ...shape, family: 'llama', heads: 8, mlp: 384 },
    ranks: 2,
    sequenceParallel: true,
  },
}
const report: Report = {
  schemaVersion: 1,
  date: '2026-03-04T05:06:07.000Z',
  seconds: 300,
  machine: { processor: 'AMD EPYC', cores: 2, memoryBytes: 2 ** 33, system: 'Linux', load: 0.1 },
  versions: { node: '20.20.2', onnxRuntime: '1.30.0', torch: '2.13.0' },
  product: { sizes: [1024, 512, 2048], ours: 2e11, torch: 1e11 },
  results: [oneRank, pipeline, tensor],
}

describe('statistics', () => {
  it('takes quantiles between neighbours, whatever the order', () => {
    expect(quantile([3, 1, 2], 0.5)).toBe(2)
    expect(quantile([4, 1, 2, 3], 0.5)).toBe(2.5)
    expect(spread([5, 1, 4, 2, 3])).toEqual({ median: 3, low: 2, high: 4 })
    expect(() => quantile([], 0.5)).toThrow(RangeError)
  })

  it('means ratios so that twice as fast and twice as slow are even', () => {
    expect(geometricMean([0.5, 2])).toBeCloseTo(1, 12)
  })
})

describe('cases', () => {
  it('counts the operations of every product of a step', () => {
    const { hidden, sequence, vocab, samples } = shape
    // Columns of each product's weight; then q·k and p·v, which work on `sequence` keys of all heads.
    const forward =
      4 * (2 * hidden * (3 + 1 + 4 + 4) * hidden + 2 * 2 * sequence * hidden) + 2 * hidden * vocab
    expect(stepOperations(shape)).toBe(3 * forward * samples * sequence)
  })

  it('counts those of a llama: fewer heads of keys and values, three products in a feed-forward layer', () => {
    const [hidden, mlp, vocab, sequence, samples] = [64, 192, 512, 32, 4] as const
    const headDim = hidden / 8
    const weights = hidden * (8 + 2 + 2 + 8) * headDim + 3 * hidden * mlp
    const forward = 4 * (2 * weights + 2 * 2 * sequence * hidden) + 2 * hidden * vocab
    const sizes = { hidden, mlp, vocab, sequence, samples, layers: 4, heads: 8, kvHeads: 2 }
    expect(stepOperations({ family: 'llama', ...sizes })).toBe(3 * forward * samples * sequence)
  })

  it('are plans that compile, with as many ranks as PyTorch is given processes', () => {
    const tensorCases = chooseCases({ quick: false, only: 'd' })
    for (const one of [...chooseCases({ quick: false }), ...chooseCases({ quick: true }), ...tensorCases]) {
      const document = parsePlan(planText(one))
      const { plan, model } = compile({ document, directory: '.', source: 'a test' })
      const { family, layers, hidden, heads, mlp } = one.shape
      expect(plan.ranks.length).toBe(one.ranks)
      expect(document.clip).toBeNull()
      expect(plan.samples * plan.sequence).toBe(1024 * (one.part === 'd' ? 1 : one.ranks))
      expect(model.family).toBe(family)
      const more = family === 'llama' ? { kvHeads: one.shape.kvHeads, ...modelNumbers } : {}
      expect(model.config).toMatchObject({ layers, hidden, heads, mlp, ...more })
    }
  })

  it('can be had by part', () => {
    expect(new Set(chooseCases({ quick: false, only: 'b' }).map(({ part }) => part))).toEqual(new Set(['b']))
  })
})

describe('page', () => {
  it('aligns columns of text and of numbers', () => {
    expect(
      markdownTable(
        ['name', 'n'],
        [
          ['a', '1'],
          ['long name', '1000'],
        ],
        (column) => column === 1,
      ),
    ).toBe(
      ['| name      |    n |', '| --------- | ---: |', '| a         |    1 |', '| long name | 1000 |'].join(
        '\n',
      ),
    )
  })

  it('shows a row for each case, a section for each part that was measured', () => {
    const page = benchmarkPage(report)
    expect(page).toContain('on 2026-03-04')
    expect(page.match(/^## \(.\)/gm)).toEqual(['## (a)', '## (c)', '## (d)'])
    const rows = page
      .split('\n')
      .filter((line) => line.startsWith('|    128 |'))
      .map((row) => row.split('|').map((cell) => cell.trim()))
    expect(rows.map((cells) => cells.slice(1, 10))).toEqual([
      ['128', '128', '512', '8', '50.1', '100', '80.0', '**0.50** (0.49–0.52)', '**0.63** (0.63–0.63)'],
      ['128', '128', '512', '16', '8', '3 + 1', '50.1', '100', '80.0'],
      ['128', '128', '512', '8', '2', 'yes', '50.1', '100', '80.0'],
    ])
    expect(rows.map((cells) => cells.includes('1.2 %'))).toEqual([true, false, true])
    expect(page).toContain('0.50 (0.50 to 0.50) against the default AdamW, 0.63 (0.63 to 0.63) against')
  })

  it('says what of the ratios is the matrix products of the libraries below', () => {
    const page = (ours: number, torch: number): string =>
      benchmarkPage({ ...report, product: { ...report.product, ours, torch } })
    expect(page(2e11, 1e11)).toMatch(/200 GFLOP\/s in ONNX Runtime, 100 in PyTorch.*2\.00 times.*AMD's/)
    expect(page(1e11, 2e11)).toMatch(/PyTorch is 2\.00 times as fast/)
    expect(page(1e11, 1e11)).toMatch(/equally fast/)
  })

  it('estimates the ratio at equal rates', () => {
    const operations = stepOperations(shape)
    // Products take 60 ms of 100 at PyTorch's rate and 20 at ours: 60 ms remain.
    const product = { sizes: [1, 1, 1], ours: operations / 0.02, torch: operations / 0.06 } as const
    expect(ratioAtEqualProducts({ ...oneRank, product })).toBeCloseTo(0.0501 / 0.06, 12)
    expect(
      ratioAtEqualProducts({ ...oneRank, product: { ...product, torch: operations / 0.2 } }),
    ).toBeUndefined()
  })

  it('leaves memory out where the system does not say', () => {
    const unknown = { ...oneRank, ours: { ...oneRank.ours, peakBytes: null } }
    expect(benchmarkPage(report)).toContain('MiB |')
    expect(benchmarkPage({ ...report, results: [unknown] })).not.toContain('MiB |')
  })
})
