import type { OpAttributes } from '../../graph/index.ts'
import { blockShape } from '../blocks.ts'
import { sameFactors } from '../factors/groups.ts'
import { anyReduction, dimIndices, type LayoutRules, linear, type TermRule } from './notation.ts'

/** Of ops that only move elements. */
const moved: readonly TermRule[] = [{ inputs: [0], reductions: anyReduction }]

/** Indices of all dims, '' where `whole` says so. */
function indicesBut(rank: number, whole: (dim: number) => boolean): string[] {
  return dimIndices(rank).map((index, dim) => (whole(dim) ? '' : index))
}

/** Indices of the factors on both sides of a reshape: of those that are the same on either side one, of others none. */
export function reshapeIndices(
  from: readonly number[],
  to: readonly number[],
  factors: Parameters<typeof sameFactors>[1] = {
    from: from.map((size) => [size]),
    to: to.map((size) => [size]),
  },
): [string[], string[]] {
  const left = factors.from.map((parts) => parts.map(() => ''))
  const right = factors.to.map((parts) => parts.map(() => ''))
  for (const [index, same] of sameFactors({ from, to }, factors).entries()) {
    left[same.from.dim]![same.from.factor] = `g${index}`
    right[same.to.dim]![same.to.factor] = `g${index}`
  }
  return [left.flat(), right.flat()]
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
  | 'reduceSum'
  | 'reduceMax'
  | 'reshape'
  | 'transpose'
  | 'broadcast'
  | 'slice'
  | 'dynamicSlice'
  | 'pad'
  | 'concat'
  | 'split'
  | 'roll'
  | 'communicate'
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
  dynamicSlice: {
    signature: ({ attributes, inputs }) => {
      const indices = indicesBut(inputs[0]!.shape.length, (dim) => dim === attributes.dim)
      return { inputs: [indices, []], outputs: [indices], terms: moved }
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
    // Parts of which each rank has a part.
    local: ({ builder, attributes: { dim }, operands, outputBlocks }) =>
      builder.op('split', operands, { dim, sizes: outputBlocks.map((block) => blockShape(block)[dim]!) }),
  },
  roll: {
    signature: ({ attributes: { dim }, inputs }) => {
      const indices = dimIndices(inputs[0]!.shape.length)
      return { inputs: [indices], outputs: [indices], terms: moved, single: [indices[dim]!] }
    },
    // Where each rank has one element, all of it goes to another rank.
    local: ({ builder, attributes, operands, inputs, axes }) => {
      const { dim, shift } = attributes
      const along = axes(`d${dim}`)
      if (along.length === 0) return builder.op('roll', operands, attributes)
      const members = inputs[0]!.shape[dim]!
      const further = ((shift % members) + members) % members
      if (further === 0) return operands
      return builder.op('communicate', operands, {
        operation: 'permute',
        reduce: null,
        axes: along,
        members,
        root: 0,
        shift: further,
      })
    },
  },
  // It is a rank's own already.
  communicate: {
    signature: ({ inputs, outputs }) => {
      const whole = ({ shape }: { readonly shape: readonly number[] }): string[] => shape.map(() => '')
      return { inputs: inputs.map(whole), outputs: outputs.map(whole) }
    },
  },
}
