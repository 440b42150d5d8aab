import { storedDType, type TensorToWrite } from '../../data/index.ts'
import { elementCount } from '../../graph/index.ts'
import { type Model, storedParameters } from '../../models/index.ts'
import type { StateTensors } from '../types.ts'

/**
 * State as the tensors of a training checkpoint, which `stateFromCheckpoint` reads: parameters as Hugging Face has them,
 * experts one by one; everything else whole.
 */
export function checkpointTensors(
  model: Pick<Model, 'family' | 'parameters'>,
  state: StateTensors,
): TensorToWrite[] {
  const parameters = new Map(model.parameters.map((parameter) => [parameter.name, parameter]))
  return [...state].flatMap(([name, { dtype, shape, data }]): TensorToWrite[] => {
    const parameter = parameters.get(name)
    const parts =
      parameter === undefined ? [{ names: [name], shape, start: 0 }] : storedParameters(model, parameter)
    return parts.map((part) => ({
      name: part.names[0]!,
      dtype: storedDType[dtype],
      shape: part.shape,
      chunks: () => [data.subarray(part.start, part.start + elementCount(part.shape))],
    }))
  })
}
