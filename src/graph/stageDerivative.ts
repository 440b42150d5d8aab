import { internalError } from '../base/index.ts'
import { parameterValues } from './boundary.ts'
import { GraphBuilder } from './builder.ts'
import { densify, differentiate, type Gradient } from './differentiate.ts'
import type { StagePiece } from './stages.ts'
import { isFloat } from './tensor.ts'
import type { Graph, GraphInput, GraphOutput, ValueId } from './types.ts'

/** A part of a parameter's gradient. `ids` of rows is an input of kind `data`, or an output of the same task. */
export type ParameterGradient =
  | { readonly parameter: string; readonly kind: 'dense'; readonly output: string }
  | {
      readonly parameter: string
      readonly kind: 'rows'
      readonly values: string
      readonly ids: { readonly input: string } | { readonly output: string }
    }

/** Forward and backward of a stage in one graph. Outputs are values of `joint`. */
export interface StageDerivative {
  readonly joint: Graph
  /** The piece's own. */
  readonly forwardOutputs: readonly GraphOutput[]
  /** `d.<received value>` */
  readonly cotangentOutputs: readonly GraphOutput[]
  readonly gradientOutputs: readonly GraphOutput[]
  /** Cotangents of what the first block passes on: they stand for `cotangentOutputs` where a stage receives nothing. */
  readonly standIns: readonly GraphOutput[]
  readonly gradients: readonly ParameterGradient[]
}

/**
 * Differentiates the summed `loss`, if the piece has one, and the values it sends. Every received float value and
 * every float parameter gets a cotangent, zeros where the loss does not depend on it.
 */
export function differentiatePiece(piece: StagePiece): StageDerivative {
  const builder = GraphBuilder.from(piece.graph)
  const outputs = seedCotangents(builder, piece)
  const received = floatInputs(builder, piece.graph, 'activation')
  const parameters = floatInputs(builder, piece.graph, 'parameter')
  const passedOn = received.length > 0 ? [] : passedOnByFirstBlock(piece.graph)
  const gradientOf = differentiate(builder, {
    outputs,
    wanted: [...received, ...parameters].map((input) => input.value).concat(passedOn),
  })

  const names: Record<'forward' | 'cotangent' | 'gradient' | 'standIn', string[]> = {
    forward: piece.graph.outputs.map((output) => output.name),
    cotangent: [],
    gradient: [],
    standIn: [],
  }
  const gradients: ParameterGradient[] = []
  for (const { name, value } of piece.graph.outputs) builder.output(name, value)
  const add = (group: string[], name: string, value: ValueId): string => {
    builder.output(name, value)
    group.push(name)
    return name
  }
  for (const { name, value } of received) {
    const dense = densify(builder, value, gradientOf.get(value)!) ?? zerosLike(builder, value)
    add(names.cotangent, `d.${name}`, dense)
  }
  for (const { name: parameter, value } of parameters) {
    const { dense, rows } = orZeros(builder, value, gradientOf.get(value)!)
    if (dense !== undefined)
      gradients.push({ parameter, kind: 'dense', output: add(names.gradient, `g.${parameter}`, dense) })
    rows.forEach((part, index) => {
      const values = add(names.gradient, `g.${parameter}.rows${index}`, part.values)
      const input = piece.graph.inputs.find((candidate) => candidate.value === part.ids)?.name
      const ids = input !== undefined ? { input } : { output: add(names.gradient, `${values}.ids`, part.ids) }
      gradients.push({ parameter, kind: 'rows', values, ids })
    })
  }
  for (const value of passedOn) {
    const dense = densify(builder, value, gradientOf.get(value)!)
    if (dense !== undefined) add(names.standIn, `passed on ${names.standIn.length}`, dense)
  }

  // Building numbers values anew, so from here on they are known by their names as outputs.
  const joint = builder.build()
  const pick = (group: readonly string[]): GraphOutput[] =>
    group.map((name) => joint.outputs.find((output) => output.name === name)!)
  return {
    joint,
    forwardOutputs: pick(names.forward),
    cotangentOutputs: pick(names.cotangent),
    gradientOutputs: pick(names.gradient),
    standIns: pick(names.standIn),
    gradients,
  }
}

/** Declares the inputs from which the backward starts. */
function seedCotangents(
  builder: GraphBuilder,
  piece: StagePiece,
): { readonly value: ValueId; readonly cotangent: ValueId }[] {
  const seeds: { value: ValueId; cotangent: ValueId }[] = []
  for (const { name, value } of piece.graph.outputs) {
    const type = builder.type(value)
    if (!isFloat(type.dtype)) continue
    if (piece.sends.some((sent) => sent.name === name))
      seeds.push({ value, cotangent: builder.input(`d.${name}`, 'cotangent', type) })
    else if (name === 'loss') {
      if (type.shape.length > 0) throw internalError('the loss of a model is a scalar')
      seeds.push({ value, cotangent: builder.input('lossScale', 'scalar', type) })
    }
  }
  return seeds
}

function floatInputs(builder: GraphBuilder, graph: Graph, kind: GraphInput['kind']): GraphInput[] {
  return graph.inputs.filter((input) => input.kind === kind && isFloat(builder.type(input.value).dtype))
}

/** Float results of the first block, other than of parameters alone, that nodes outside it use. */
function passedOnByFirstBlock(graph: Graph): ValueId[] {
  const first = Math.min(...graph.nodes.map((node) => node.block).filter((block) => block >= 0))
  const used = new Set(graph.nodes.filter((node) => node.block !== first).flatMap((node) => node.inputs))
  const ofParameters = parameterValues(graph)
  return graph.nodes
    .filter((node) => node.block === first)
    .flatMap((node) => node.outputs)
    .filter(
      (value) => used.has(value) && !ofParameters.has(value) && isFloat(graph.values[value]!.type.dtype),
    )
}

function orZeros(builder: GraphBuilder, value: ValueId, gradient: Gradient): Gradient {
  if (gradient.dense !== undefined || gradient.rows.length > 0) return gradient
  return { dense: zerosLike(builder, value), rows: [] }
}

function zerosLike(builder: GraphBuilder, value: ValueId): ValueId {
  const { shape, dtype } = builder.type(value)
  return builder.one('fill', [], { shape, dtype, value: 0 })
}
