import { describe, expect, it } from 'vitest'
import { withGradients } from '../../../../test/support/layoutGraph.ts'
import { distance, runOnnx } from '../../../../test/support/runOnnx.ts'
import { smallModel } from '../../../../test/support/smallModels.ts'
import { type Graph, interpretGraph, makeTensor } from '../../../graph/index.ts'
import { ringAttention } from '../../../layout/index.ts'
import { modelFromShortName } from '../../../models/index.ts'

const [batch, sequence] = [2, 12]
const name = `llama:layers=1,hidden=8,heads=4,kvHeads=2,mlp=12,vocab=20,context=${sequence}`

function ringOf(dtype: 'f32' | 'f64'): Graph {
  const graph = modelFromShortName(name).build({ batch, sequence, dtype, documents: true })
  return ringAttention(graph, { parts: 3, zigzag: true })
}

/** Documents of two, three and seven tokens: most chunks hold no key that a query sees. */
function inputsOf(dtype: 'f32' | 'f64') {
  const ids = Array.from({ length: batch * sequence }, (_, index) => {
    const position = index % sequence
    return position < 2 ? 0 : position < 5 ? 1 : 2
  })
  const documents = makeTensor({ dtype: 'i32', shape: [batch, sequence] }, ids)
  const inputs = new Map(smallModel(name, batch, sequence).inputs).set('documents', documents)
  for (const [input, { type, data }] of inputs)
    if (type.dtype === 'f64') inputs.set(input, makeTensor({ ...type, dtype }, data))
  return inputs
}

describe('ring attention over packed documents in ONNX Runtime', () => {
  it('has the loss and the derivatives of the interpreter', async () => {
    const graph = withGradients(ringOf('f64'))
    const inputs = inputsOf('f64')
    const expected = interpretGraph(graph, inputs)
    const actual = await runOnnx(graph, inputs)
    for (const [output, tensor] of expected)
      expect(distance(actual.get(output)!, tensor)).toBeLessThanOrEqual(1e-12)
  })

  it('has its loss in float32 too', async () => {
    const exact = interpretGraph(ringOf('f64'), inputsOf('f64')).get('loss')!.data[0]!
    const found = (await runOnnx(ringOf('f32'), inputsOf('f32'))).get('loss')!.data[0]!
    expect(Math.abs(found / exact - 1)).toBeLessThan(1e-5)
  })
})
