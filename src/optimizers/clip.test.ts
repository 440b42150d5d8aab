import { describe, expect, it } from 'vitest'
import { type FloatDType, interpretGraph, scalarTensor } from '../graph/index.ts'
import { buildClipFactor } from './clip.ts'

function clip(
  sumOfSquares: number,
  maxNorm: number,
  dtype: FloatDType = 'f64',
): { norm: number; factor: number } {
  const graph = buildClipFactor({ maxNorm, dtype })
  const outputs = interpretGraph(graph, { sumOfSquares: scalarTensor('f64', sumOfSquares) })
  expect(outputs.get('gradientNorm')!.type).toMatchObject({ dtype: 'f64', shape: [] })
  expect(outputs.get('clipFactor')!.type).toMatchObject({ dtype, shape: [] })
  return { norm: outputs.get('gradientNorm')!.data[0]!, factor: outputs.get('clipFactor')!.data[0]! }
}

describe('clip factor', () => {
  it('is that of torch.nn.utils.clip_grad_norm_', () => {
    // Gradients [3, -4, 12] and [84, 1], max_norm=2: norm and the factor on the last one, torch 2.13.0, float64.
    const { norm, factor } = clip(9 + 16 + 144 + 84 * 84 + 1, 2)
    expect(norm).toBeCloseTo(85.00588214941364, 13)
    expect(factor).toBeCloseTo(0.0235277833239451, 15)
  })

  it('leaves small gradients alone', () => {
    expect(clip(0.25, 2)).toEqual({ norm: 0.5, factor: 1 })
    expect(clip(0, 1)).toEqual({ norm: 0, factor: 1 })
  })

  it('feeds float32 regions', () => {
    expect(clip(16, 2, 'f32').factor).toBeCloseTo(0.5, 6)
  })

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('refuses a largest norm of %d', (maxNorm) => {
    expect(() => buildClipFactor({ maxNorm, dtype: 'f64' })).toThrow(
      expect.objectContaining({ code: 'OPTIMIZER_CLIP' }),
    )
  })
})
