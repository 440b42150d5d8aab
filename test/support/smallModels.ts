import type { FloatDType } from '../../src/graph/index.ts'
import { modelFromShortName } from '../../src/models/index.ts'
import { inputsOf } from './modelFixture.ts'
import type { RandomModel } from './randomGraphs.ts'
import { Numbers } from './randomTensors.ts'

/** The graph of a model by its short name, and numbers in float64 for its inputs; some labels are not counted. */
export function smallModel(
  name: string,
  batch: number,
  sequence: number,
  dtype: FloatDType = 'f64',
): RandomModel {
  const model = modelFromShortName(name)
  const numbers = new Numbers(11)
  const ids = (lowest: number): number[][] =>
    Array.from({ length: batch }, () =>
      Array.from({ length: sequence }, () => numbers.integer(lowest, model.vocabulary - 1)),
    )
  const shapes = new Map(model.parameters.map((parameter) => [parameter.name, parameter.shape]))
  const inputs = inputsOf(
    model,
    { tokens: ids(0), labels: ids(-1) },
    (parameter) => numbers.floats('f64', shapes.get(parameter)!, -0.5, 0.5).data,
  )
  return {
    graph: model.build({ batch, sequence, dtype }),
    inputs: new Map(Object.entries(inputs)),
  }
}
