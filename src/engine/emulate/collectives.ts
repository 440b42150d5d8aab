import { assertNever, internalError } from '../../base/index.ts'
import type { TensorData } from '../../graph/index.ts'
import type { Instruction } from '../../program/index.ts'

type Collective = Extract<Instruction, { kind: 'collective' }>

/**
 * What each member gets of one part of a collective, given what all members put in, in rank order (see
 * `CollectiveOperation`). Reductions go in rank order.
 */
export function collectiveResults(
  { operation, reduce, root, shift }: Collective,
  sources: readonly TensorData[],
): TensorData[] {
  const count = sources.length
  const block = (source: TensorData, index: number): TensorData => {
    const length = source.length / count
    return source.subarray(index * length, (index + 1) * length)
  }
  const blank = (like: TensorData): TensorData => emptyLike(like, like.length)
  const atRoot = (result: TensorData): TensorData[] =>
    sources.map((_, member) => (member === root ? result : blank(result)))
  switch (operation) {
    case 'allReduce': {
      const reduced = reduction(reduce, sources)
      return sources.map(() => reduced)
    }
    case 'reduceScatter': {
      const reduced = reduction(reduce, sources)
      return sources.map((_, member) => block(reduced, member))
    }
    case 'allGather': {
      const all = joined(sources)
      return sources.map(() => all)
    }
    case 'broadcast':
      return sources.map(() => sources[root ?? 0]!)
    case 'reduce':
      return atRoot(reduction(reduce, sources))
    case 'gather':
      return atRoot(joined(sources))
    case 'scatter':
      return sources.map((_, member) => block(sources[root ?? 0]!, member))
    case 'allToAll':
      return sources.map((_, member) => joined(sources.map((source) => block(source, member))))
    case 'permute':
      return sources.map((_, member) => sources[(((member - (shift ?? 0)) % count) + count) % count]!)
    default:
      return assertNever(operation)
  }
}

function reduction(reduce: Collective['reduce'], sources: readonly TensorData[]): TensorData {
  if (reduce === undefined) throw internalError('a reduction that does not say how')
  const result = sources[0]!.slice()
  for (const source of sources.slice(1))
    for (let index = 0; index < result.length; index++)
      result[index] =
        reduce === 'max' ? Math.max(result[index]!, source[index]!) : result[index]! + source[index]!
  if (reduce === 'mean') for (let index = 0; index < result.length; index++) result[index]! /= sources.length
  return result
}

function joined(sources: readonly TensorData[]): TensorData {
  const result = emptyLike(
    sources[0]!,
    sources.reduce((sum, { length }) => sum + length, 0),
  )
  let at = 0
  for (const source of sources) {
    result.set(source, at)
    at += source.length
  }
  return result
}

function emptyLike(like: TensorData, length: number): TensorData {
  return like instanceof Float64Array ? new Float64Array(length) : new Int32Array(length)
}
