import { describe, expect, it } from 'vitest'
import { axesOf, checkModel } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { stageTasks } from '../../graph/index.ts'
import { type PlacementRule, parseLayout } from '../index.ts'

const model = smallModel('llama:layers=1,hidden=16,heads=4,kvHeads=4,mlp=24,context=8,vocab=20', 2, 8)
const axes = axesOf({ tensor: 2 })
const weight = 'model.layers.0.mlp.down_proj.weight'

function placed(match: string, text: string, keep = false): PlacementRule {
  return { match, place: { kind: 'layout', layout: parseLayout(text) }, keep }
}

describe('rules of a plan', () => {
  it('place what the recipe has elsewhere, and nothing changes but where it is computed', () => {
    const { local } = checkModel(model, axes, { tensor: 'megatron', rules: [placed(weight, '[tensor | .]')] })
    expect(local.placed.get(weight)!.layout.dims).toEqual([['tensor'], []])
    expect(local.placed.get(`g.${weight}`)!.layout.dims).toEqual([['tensor'], []])
  })

  it('cut a logical axis of everything that has it', () => {
    const rules: PlacementRule[] = [
      { match: null, place: { kind: 'axis', axis: 'mlp', over: [] }, keep: false },
    ]
    const { local } = checkModel(model, axes, { tensor: 'megatron', rules })
    expect(local.placed.get(weight)!.layout.dims.flat()).toEqual([])
    expect(local.placed.get('lm_head.weight')!.layout.dims.flat()).toEqual(['tensor'])
  })

  it('say layouts of merged dims by whole heads', () => {
    const name = 'model.layers.0.self_attn.o_proj.weight'
    const { local } = checkModel(model, axes, { tensor: 'megatron', rules: [placed(name, '[. | tensor]')] })
    expect(local.placed.get(name)!.layout.dims).toEqual([[], ['tensor'], []])
  })

  it('hold a value for the backward as it is placed', () => {
    const crossing = { stage: 0, sends: [], receives: [] }
    const residuals = (keep: boolean): number => {
      const rules = [placed('model.layers.0.mlp.gate_proj', '[. | . | .]', keep)]
      const { local } = checkModel(model, axes, { tensor: 'megatron', rules })
      expect(local.kept.length > 0).toBe(keep)
      const { F, held } = stageTasks(crossing, local, { kept: local.kept })
      const shapes = held.map(
        (name) => F.values[F.outputs.find((output) => output.name === name)!.value]!.type.shape,
      )
      return shapes.filter((shape) => `${shape}` === '16,24').length
    }
    expect(residuals(true)).toBe(1)
    expect(residuals(false)).toBe(0)
  })
})
