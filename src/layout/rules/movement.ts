import type { OpAttributes } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { anyReduction, dimIndices, type LayoutRules, linear, type TermRule } from './notation.ts'

/** Of ops that only move elements. */
const moved: readonly TermRule[] = [{ inputs: [0], reductions: anyReduction }]

/** Indices of all dims, '' where `whole` says so. */
function indicesBut(rank: number, whole: (dim: number) => boolean): string[] {
  return dimIndices(rank).map((index, dim) => (whole(dim) ? '' : index))
}

/**
 * Dims of two shapes of as many elements, in the smallest groups that hold as many: the first of each group on either
 * side have one index, as a cut of it into equal parts is a cut of the group's elements into runs. Dims of size 1 belong to
 * none.
 */
export function reshapeIndices(from: readonly number[], to: readonly number[]): [string[], string[]] {
  const left = from.map(() => '')
  const right = to.map(() => '')
  if (from.includes(0) || to.includes(0)) return [left, right]
  const leftDims = [...from.keys()].filter((dim) => from[dim]! > 1)
  const rightDims = [...to.keys()].filter((dim) => to[dim]! > 1)
  for (let i = 0, j = 0; i < leftDims.length; ) {
    const name = `g${i}`
    let leftCount = from[leftDims[i]!]!
    let rightCount = to[rightDims[j]!]!
    left[leftDims[i++]!] = name
    right[rightDims[j++]!] = name
    while (leftCount !== rightCount)
      if (leftCount < rightCount) leftCount *= from[leftDims[i++]!]!
      else rightCount *= to[rightDims[j++]!]!
  }
  return [left, right]
}

const reduced = (
  { dims, keepDims }: OpAttributes['reduceSum'],
  rank: number,
): { readonly inputs: string[][]; readonly outputs: string[][] } => {
  const input = dimIndices(rank)
  const output = keepDims
    ? indicesBut(rank, (dim) => dims.includes(dim))
    : input.filter((_, dim) => !dims.includes(dim))
  return { inputs: [input], outputs: [output] }
}

export const movementRules: Pick<
  LayoutRules,
  'reduceSum' | 'reduceMax' | 'reshape' | 'transpose' | 'broadcast' | 'slice' | 'pad' | 'concat' | 'split'
> = {
  reduceSum: {
    signature: ({ attributes, inputs }) => ({
      ...reduced(attributes, inputs[0]!.shape.length),
      terms: [{ inputs: [0], reductions: linear }],
    }),
  },
  reduceMax: {
    signature: ({ attributes, inputs }) => ({
      ...reduced(attributes, inputs[0]!.shape.length),
      contraction: 'max',
      terms: [{ inputs: [0], reductions: ['max'] }],
    }),
  },
  reshape: {
    signature: ({ inputs, outputs }) => {
      const [from, to] = reshapeIndices(inputs[0]!.shape, outputs[0]!.shape)
      return { inputs: [from], outputs: [to], terms: moved }
    },
    local: ({ builder, attributes, operands, outputBlocks }) =>
      builder.op('reshape', operands, { ...attributes, shape: blockShape(outputBlocks[0]!) }),
  },
  transpose: {
    signature: ({ attributes: { permutation } }) => {
      const input = dimIndices(permutation.length)
      return { inputs: [input], outputs: [permutation.map((dim) => input[dim]!)], terms: moved }
    },
  },
  broadcast: {
    signature: ({ inputs, outputs }) => {
      const { shape } = outputs[0]!
      const output = dimIndices(shape.length)
      const missing = shape.length - inputs[0]!.shape.length
      // A dim along which the operand is repeated is made.
      const input = inputs[0]!.shape.map((size, dim) =>
        size === shape[missing + dim] ? output[missing + dim]! : '',
      )
      return { inputs: [input], outputs: [output], terms: moved }
    },
    local: ({ builder, operands, outputBlocks }) =>
      builder.op('broadcast', operands, { shape: blockShape(outputBlocks[0]!) }),
  },
  slice: {
    signature: ({ attributes: { starts, ends }, inputs }) => {
      const { shape } = inputs[0]!
      const indices = indicesBut(shape.length, (dim) => starts[dim] !== 0 || ends[dim] !== shape[dim])
      return { inputs: [indices], outputs: [indices], terms: moved }
    },
    local: ({ builder, attributes: { starts }, operands, outputBlocks }) => {
      const sizes = blockShape(outputBlocks[0]!)
      return builder.op('slice', operands, { starts, ends: starts.map((start, dim) => start + sizes[dim]!) })
    },
  },
  pad: {
    signature: ({ attributes: { before, after } }) => {
      const indices = indicesBut(before.length, (dim) => before[dim] !== 0 || after[dim] !== 0)
      return { inputs: [indices], outputs: [indices], terms: moved }
    },
  },
  concat: {
    signature: ({ attributes, inputs }) => {
      const indices = indicesBut(inputs[0]!.shape.length, (dim) => dim === attributes.dim)
      return {
        inputs: inputs.map(() => indices),
        outputs: [indices],
        terms: [{ inputs: [...inputs.keys()], reductions: anyReduction }],
      }
    },
  },
  split: {
    signature: ({ attributes, inputs, outputs }) => {
      const indices = indicesBut(inputs[0]!.shape.length, (dim) => dim === attributes.dim)
      return { inputs: [indices], outputs: outputs.map(() => indices), terms: moved }
    },
  },
}
