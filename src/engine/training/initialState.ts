import { MeshwrightError } from '../../base/index.ts'
import { openSafetensors, readFloats, requireTensor, type SafetensorsSource } from '../../data/index.ts'
import { bytesPerElement, elementCount, type FloatDType } from '../../graph/index.ts'
import { checkpointNames, initializeParameter, isRedundantTensor, type Model } from '../../models/index.ts'
import type { Optimizer } from '../../optimizers/index.ts'
import { allocate } from '../memory.ts'
import type { HostTensor, StateTensors } from '../types.ts'

export interface StateOptions {
  readonly model: Model
  readonly optimizer: Optimizer
  readonly dtype: FloatDType
}

/** State before the first step: parameters from the seed, optimizer states zero. */
export function initialState(options: StateOptions & { readonly seed: number }): StateTensors {
  return stateFrom(options, (parameter, out) => {
    initializeParameter(out, parameter, { seed: options.seed })
  })
}

/** As `initialState`, with the parameters of a Hugging Face checkpoint file, index or folder. Extra tensors are refused. */
export function stateFromWeights(options: StateOptions, path: string): StateTensors {
  const source = openSafetensors(path)
  const used = new Set<string>()
  const state = stateFrom(options, (parameter, out) => {
    const names = checkpointNames(options.model, parameter.name)
    const name = names.find((candidate) => source.tensors.has(candidate)) ?? parameter.name
    used.add(name)
    requireTensor(source, name, parameter.shape)
    readFloats(source, name, out)
  })
  const extra = [...source.tensors.keys()].filter(
    (name) => !used.has(name) && !isRedundantTensor(options.model, name),
  )
  if (extra.length > 0)
    throw new MeshwrightError(
      'WEIGHTS_EXTRA',
      `${source.path} holds ${extra.length} tensors that ${options.model.name} does not have, the first is ${extra[0]}`,
      { at: { file: source.path }, hint: 'give the config.json that belongs to these weights' },
    )
  return state
}

/**
 * Whole state of a training checkpoint, whatever plan wrote it. Throws naming the tensor that is missing or differs, and
 * where there is one that neither model nor optimizer has: it would be another model's.
 */
export function stateFromCheckpoint(options: StateOptions, source: SafetensorsSource): StateTensors {
  const read = (name: string, shape: readonly number[]): HostTensor => {
    requireTensor(source, name, shape)
    const tensor = emptyTensor(name, options.dtype, shape)
    readFloats(source, name, tensor.data)
    return tensor
  }
  const state = new Map<string, HostTensor>()
  for (const { name, shape } of options.model.parameters) {
    state.set(name, read(name, shape))
    for (const { checkpointName } of options.optimizer.states)
      state.set(checkpointName(name), read(checkpointName(name), shape))
  }
  const extra = [...source.tensors.keys()].filter((name) => !state.has(name))
  if (extra.length > 0)
    throw new MeshwrightError(
      'CHECKPOINT_EXTRA',
      `${source.path} holds ${extra.length} tensors that neither ${options.model.name} nor ${options.optimizer.name} has, the first is ${extra[0]}`,
      { at: { file: source.path }, hint: 'resume with the model and the optimizer of the run' },
    )
  return state
}

function stateFrom(
  { model, optimizer, dtype }: StateOptions,
  fill: (parameter: Model['parameters'][number], out: Float32Array | Float64Array) => void,
): StateTensors {
  const state = new Map<string, HostTensor>()
  for (const parameter of model.parameters) {
    const tensor = emptyTensor(parameter.name, dtype, parameter.shape)
    fill(parameter, tensor.data)
    state.set(parameter.name, tensor)
    for (const { checkpointName } of optimizer.states) {
      const name = checkpointName(parameter.name)
      state.set(name, emptyTensor(name, dtype, parameter.shape))
    }
  }
  return state
}

/** @throws MeshwrightError `ENGINE_NO_MEMORY` */
function emptyTensor(
  name: string,
  dtype: FloatDType,
  shape: readonly number[],
): HostTensor & { readonly data: Float32Array | Float64Array } {
  const elements = elementCount(shape)
  const data = allocate(elements * bytesPerElement[dtype], name, () =>
    dtype === 'f32' ? new Float32Array(elements) : new Float64Array(elements),
  )
  return { dtype, shape, data }
}
