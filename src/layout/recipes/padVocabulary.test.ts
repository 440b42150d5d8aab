import { describe, expect, it } from 'vitest'
import { wholeDerivative } from '../../../test/support/layoutModels.ts'
import { smallModel } from '../../../test/support/smallModels.ts'
import { interpretGraph, makeTensor, type Tensor } from '../../graph/index.ts'
import { padVocabulary } from './padVocabulary.ts'

describe('a padded vocabulary', () => {
  it.each(['gpt:layers=1,hidden=8,heads=2,mlp=12', 'llama:layers=1,hidden=8,heads=2,kvHeads=1,mlp=12'])(
    'changes neither the loss nor any derivative of %s, and has zero derivatives of its own',
    (name) => {
      const [vocabulary, rows] = [11, 16]
      const { graph, inputs } = smallModel(`${name},context=6,vocab=${vocabulary}`, 2, 6)
      const scale = makeTensor({ dtype: 'f64', shape: [] }, [1])
      const plain = interpretGraph(wholeDerivative(graph).joint, new Map(inputs).set('lossScale', scale))
      const padded = padVocabulary(graph, rows)
      const wide = new Map<string, Tensor>(
        padded.inputs.map(({ name: input, value }) => {
          const { type } = padded.values[value]!
          const data = new Float64Array(type.shape.reduce((product, size) => product * size, 1))
          data.set(inputs.get(input)!.data)
          return [input, makeTensor(type, [...data])]
        }),
      )
      const found = interpretGraph(wholeDerivative(padded).joint, wide.set('lossScale', scale))
      expect([...found.keys()]).toEqual([...plain.keys()])
      for (const [output, { data }] of plain) {
        const own = found.get(output)!.data
        // The same bits: what is added weighs nothing at all.
        expect([...own.subarray(0, data.length)], output).toEqual([...data])
        expect(
          own.subarray(data.length).every((value) => value === 0),
          output,
        ).toBe(true)
      }
    },
  )
})
