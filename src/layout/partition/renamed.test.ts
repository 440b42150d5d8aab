import { expect, it } from 'vitest'
import { axesOf, plainSettings } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { differentiatePiece, splitStages } from '../../graph/index.ts'
import { derivativeKey, layoutWants, localDerivative, renamedLocal } from '../index.ts'

it('stages of equal layers are cut once, and are what each would be by itself', () => {
  const { graph } = smallModel('llama:layers=4,hidden=16,heads=4,kvHeads=2,mlp=24,context=8,vocab=20', 2, 8)
  const pieces = splitStages(graph, [0, 0, 1, 2, 3, 3]).map(differentiatePiece)
  const axes = axesOf({ tensor: 2 })
  const settings = { ...plainSettings, tensor: 'megatron', sequence: true } as const
  const [, first, second, last] = pieces.map((piece) =>
    localDerivative(piece, axes.mesh, layoutWants(settings, axes, piece.joint)),
  )
  expect(derivativeKey(pieces[1]!)).toBe(derivativeKey(pieces[2]!))
  expect(derivativeKey(pieces[1]!)).not.toBe(derivativeKey(pieces[3]!))
  // Hints of names are for reading alone.
  const plain = (local: typeof first) => ({
    ...local!,
    joint: { ...local!.joint, values: local!.joint.values.map(({ type }) => type) },
  })
  expect(plain(renamedLocal(first!, pieces[1]!, pieces[2]!))).toEqual(plain(second))
  expect(plain(second)).not.toEqual(plain(last))
})
