import {
  elementCount,
  type Graph,
  interpretGraph,
  type StagePiece,
  type StageTasks,
  scalarTensor,
  type Tensor,
} from '../../src/graph/index.ts'

export interface StageRun {
  readonly loss: number
  /** Summed over stages, rows scattered. */
  readonly gradients: ReadonlyMap<string, Float64Array>
}

/** `split`: F, I, W. `fused`: FB where a stage sends nothing, otherwise F and FB as the backward. */
export type StageMode = 'plain' | 'split' | 'fused'

/**
 * Forward and backward of one micro-batch through all stages on the reference interpreter, as a schedule would run
 * them. A task finds its inputs by name among what its stage was given or has made so far.
 */
export function runStages(
  pieces: readonly StagePiece[],
  tasks: readonly StageTasks[],
  inputs: ReadonlyMap<string, Tensor>,
  mode: StageMode,
  lossScale: number = 1,
): StageRun {
  const scopes = pieces.map(() => new Map<string, Tensor>(inputs))
  let loss: number | undefined
  pieces.forEach((piece, stage) => {
    const scope = scopes[stage]!
    run(tasks[stage]!.F, scope)
    for (const { name, to } of piece.sends) for (const other of to) scopes[other]!.set(name, scope.get(name)!)
    if (scope.has('loss')) {
      loss = scope.get('loss')!.data[0]!
      scope.set('lossScale', scalarTensor(scope.get('loss')!.type.dtype, lossScale))
    }
  })

  const gradients = new Map<string, Float64Array>()
  const cotangents = new Map<string, Tensor>()
  for (let stage = pieces.length - 1; stage >= 0; stage--) {
    const scope = scopes[stage]!
    for (const { name } of pieces[stage]!.sends) {
      const cotangent = cotangents.get(`d.${name}`)
      if (cotangent !== undefined) scope.set(`d.${name}`, cotangent)
    }
    const { R, B, I, W, FB } = tasks[stage]!
    if (R !== undefined && mode !== 'fused') run(R, scope)
    for (const graph of mode === 'plain' ? [B] : mode === 'split' ? [I, W] : [FB]) run(graph, scope)
    for (const { name } of pieces[stage]!.receives) {
      const part = scope.get(`d.${name}`)
      if (part === undefined) continue
      const known = cotangents.get(`d.${name}`)
      cotangents.set(`d.${name}`, known === undefined ? part : sum(known, part))
    }
    for (const part of tasks[stage]!.gradients) {
      const target = gradients.get(part.parameter) ?? zeros(inputs.get(part.parameter)!)
      gradients.set(part.parameter, target)
      if (part.kind === 'dense') {
        scope.get(part.output)!.data.forEach((value, index) => {
          target[index]! += value
        })
      } else {
        const ids = scope.get('input' in part.ids ? part.ids.input : part.ids.output)!
        scatter(target, ids, scope.get(part.values)!)
      }
    }
  }
  return { loss: loss!, gradients }
}

function run(graph: Graph, scope: Map<string, Tensor>): void {
  for (const [name, tensor] of interpretGraph(graph, scope)) scope.set(name, tensor)
}

function zeros(like: Tensor): Float64Array {
  return new Float64Array(elementCount(like.type.shape))
}

function sum(left: Tensor, right: Tensor): Tensor {
  return { type: left.type, data: Float64Array.from(left.data, (value, index) => value + right.data[index]!) }
}

function scatter(target: Float64Array, ids: Tensor, values: Tensor): void {
  const width = values.data.length / ids.data.length
  ids.data.forEach((id, row) => {
    for (let column = 0; column < width; column++)
      target[id * width + column]! += values.data[row * width + column]!
  })
}
