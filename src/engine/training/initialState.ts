import { MeshwrightError } from '../../base/index.ts'
import { openSafetensors, readFloats, requireTensor, type SafetensorsSource } from '../../data/index.ts'
import { bytesPerElement, elementCount, type FloatDType } from '../../graph/index.ts'
import { initializeParameter, isRedundantTensor, type Model, storedParameters } from '../../models/index.ts'
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
    for (const name of readParameter(source, options.model, parameter, out)) used.add(name)
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

/** Fills `out` with a parameter from the tensors that hold it; returns their names. */
function readParameter(
  source: SafetensorsSource,
  model: Model,
  parameter: Model['parameters'][number],
  out: Float32Array | Float64Array,
): string[] {
  return storedParameters(model, parameter).map(({ names, shape, start }) => {
    const name = names.find((candidate) => source.tensors.has(candidate)) ?? names[0]!
    requireTensor(source, name, shape)
    readFloats(source, name, out.subarray(start, start + elementCount(shape)))
    return name
  })
}

/**
 * Whole state of a training checkpoint, whatever plan wrote it. Throws naming the tensor that is missing or differs, and
 * where there is one that neither model nor optimizer has: it would be another model's.
 */
export function stateFromCheckpoint(options: StateOptions, source: SafetensorsSource): StateTensors {
  const state = new Map<string, HostTensor>()
  const read = new Set<string>()
  for (const parameter of options.model.parameters) {
    const { name, shape } = parameter
    const tensor = emptyTensor(name, options.dtype, shape)
    for (const stored of readParameter(source, options.model, parameter, tensor.data)) read.add(stored)
    state.set(name, tensor)
    for (const { checkpointName } of options.optimizer.states) {
      const own = checkpointName(name)
      requireTensor(source, own, shape)
      const moments = emptyTensor(own, options.dtype, shape)
      readFloats(source, own, moments.data)
      read.add(own)
      state.set(own, moments)
    }
  }
  const extra = [...source.tensors.keys()].filter((name) => !read.has(name))
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
