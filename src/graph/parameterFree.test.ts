import { describe, expect, it } from 'vitest'
import { runStages } from '../../test/support/runStages.ts'
import { smallModel } from '../../test/support/smallModels.ts'
import { splitStages } from './stages.ts'
import { differentiateStage } from './tasks.ts'

const sizes = 'layers=4,hidden=8,heads=2,context=5,vocab=11'
const models = [
  `gpt:${sizes},mlp=32,tied=true`,
  `gpt:${sizes},mlp=32,tied=false`,
  `llama:${sizes},mlp=24,kvHeads=1,tied=false`,
  `llama:${sizes},mlp=24,kvHeads=2,tied=true`,
]

describe.each(models)('a backward for weights without parameters, %s', (name) => {
  it.each([[[0, 0, 0, 0, 0, 0]], [[0, 0, 0, 1, 1, 1]], [[0, 0, 1, 1, 2, 2]]])('cut as %j', (cut) => {
    const { graph, inputs } = smallModel(name, 2, 5)
    const pieces = splitStages(graph, cut)
    const plain = pieces.map((piece) => differentiateStage(piece))
    const free = pieces.map((piece) => differentiateStage(piece, { weightsTakeParameters: false }))
    for (const { W } of free) expect(W.inputs.filter(({ kind }) => kind === 'parameter')).toEqual([])
    // Otherwise the option would do nothing.
    expect(plain.some(({ W }) => W.inputs.some(({ kind }) => kind === 'parameter'))).toBe(true)
    const wanted = runStages(pieces, plain, inputs, 'plain')
    for (const mode of ['plain', 'split'] as const) {
      const found = runStages(pieces, free, inputs, mode)
      expect(found.loss).toBe(wanted.loss)
      for (const [parameter, gradient] of wanted.gradients)
        expect(found.gradients.get(parameter)).toEqual(gradient)
    }
  })
})
