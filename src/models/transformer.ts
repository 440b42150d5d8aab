import type { Graph } from '../graph/index.ts'
import { checkMicrobatch, checkParameterCount } from './checks.ts'
import type { BuildOptions, Model, ModelConfig, ParameterSpec } from './types.ts'

export interface ModelOptions {
  /** Default: the family. */
  readonly name?: string
  readonly notices?: readonly string[]
}

/** What all families share: an embedding, equal layers named `<layerName>.<n>`, a head. The config is checked already. */
export function transformerModel<C extends ModelConfig>(
  config: C,
  family: {
    readonly layerName: string
    readonly parameters: readonly ParameterSpec[]
    readonly build: (config: C, parameters: readonly ParameterSpec[], build: BuildOptions) => Graph
  },
  options: ModelOptions,
): Model {
  const { layers, context, vocab } = config
  const { layerName, parameters } = family
  checkParameterCount(parameters)
  const name = options.name ?? config.family
  return {
    name,
    family: config.family,
    config,
    vocabulary: vocab,
    context,
    parameters,
    blocks: ['embed', ...Array.from({ length: layers }, (_, layer) => `${layerName}.${layer}`), 'head'],
    notices: options.notices ?? [],
    build(build) {
      checkMicrobatch({ name, context }, build)
      return family.build(config, parameters, build)
    },
  }
}
