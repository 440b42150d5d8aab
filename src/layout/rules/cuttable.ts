import type { OpAttributes, OpName, TensorType, ValueId } from '../../graph/index.ts'
import { equalParts } from '../factors/equalParts.ts'
import { layoutRuleOf } from './index.ts'
import { reshapeIndices } from './movement.ts'
import type { LocalOperands, OpSignature } from './notation.ts'

/** An op on whole operands that may be cut. Signature and types are over the factors of dims, in order. */
export interface CuttableOp {
  /** Equal for ops that may be cut in the same ways. */
  readonly key: string
  readonly signature: OpSignature
  readonly inputs: readonly TensorType[]
  readonly outputs: readonly TensorType[]
  /** How many factors each dim of each operand and result has. */
  readonly factors: { readonly inputs: readonly Counts[]; readonly outputs: readonly Counts[] }
  /** On a rank's blocks, dims as the op has them. */
  readonly local: (context: LocalOperands) => readonly ValueId[]
}

type Counts = readonly number[]

/** Sizes of the factors of each dim. */
type Factors = readonly (readonly number[])[]

export interface TypedOp {
  readonly op: OpName
  readonly attributes: OpAttributes[OpName]
  readonly inputs: readonly TensorType[]
  readonly outputs: readonly TensorType[]
}

/** What the rule of the op says of its dims. */
export function signatureOf({ op, attributes, inputs, outputs }: TypedOp): OpSignature {
  return layoutRuleOf(op).signature({ attributes, inputs, outputs })
}

/** The op over the factors of its dims, which are the dims themselves where none are given. */
export function cuttableOp(
  typed: TypedOp,
  factors: { readonly inputs: readonly Factors[]; readonly outputs: readonly Factors[] } = {
    inputs: typed.inputs.map(({ shape }) => shape.map((size) => [size])),
    outputs: typed.outputs.map(({ shape }) => shape.map((size) => [size])),
  },
): CuttableOp {
  const { op, attributes, inputs, outputs } = typed
  const { local } = layoutRuleOf(op)
  const factored = (types: readonly TensorType[], of: readonly Factors[]): TensorType[] =>
    types.map(({ dtype }, at) => ({ dtype, shape: of[at]!.flat() }))
  const counts = (of: readonly Factors[]): Counts[] => of.map((dims) => dims.map((parts) => parts.length))
  return {
    key: `${op} ${JSON.stringify([attributes, factors, inputs.map(({ dtype }) => dtype)])}`,
    signature: factoredSignature(typed, factors),
    inputs: factored(inputs, factors.inputs),
    outputs: factored(outputs, factors.outputs),
    factors: { inputs: counts(factors.inputs), outputs: counts(factors.outputs) },
    local: (context) =>
      local === undefined
        ? context.builder.op(op, context.operands, attributes)
        : local({ ...context, attributes, inputs, outputs }),
  }
}

function factoredSignature(
  typed: TypedOp,
  factors: { readonly inputs: readonly Factors[]; readonly outputs: readonly Factors[] },
): OpSignature {
  const signature = signatureOf(typed)
  if (typed.op === 'reshape') return { ...signature, ...reshapeNames(typed, factors) }
  const agreed = agreedFactors(signature, factors)
  const named = (names: readonly (readonly string[])[], of: readonly Factors[]): string[][] =>
    names.map((own, at) =>
      own.flatMap((index, dim) =>
        of[at]![dim]!.map((_, factor) => {
          if (index === '' || factor >= agreed.get(index)!) return ''
          return factor === 0 ? index : `${index}/${factor}`
        }),
      ),
    )
  const names = {
    inputs: named(signature.inputs, factors.inputs),
    outputs: named(signature.outputs, factors.outputs),
  }
  return { ...signature, ...partNames(typed, factors, names) }
}

/** Names of the inner factors of a dim of which a split, or a concatenation, has equal parts. */
function partNames(
  typed: TypedOp,
  factors: { readonly inputs: readonly Factors[]; readonly outputs: readonly Factors[] },
  names: { readonly inputs: string[][]; readonly outputs: string[][] },
): typeof names {
  const found = equalParts(typed)
  if (found === undefined) return names
  const { dim, count, whole } = found
  const parts = whole === 'inputs' ? 'outputs' : 'inputs'
  const own = factors[parts][0]![dim]!
  const all = factors[whole][0]![dim]!
  const outer = all.slice(0, all.length - own.length)
  const isNested =
    outer.reduce((product, size) => product * size, 1) === count &&
    factors[parts].every((dims) => `${dims[dim]}` === `${own}`) &&
    `${all.slice(outer.length)}` === `${own}`
  if (!isNested) return names
  const inner = own.map((_, factor) => `part/${factor}`)
  const replaced = (list: string[], at: number, dims: Factors, by: string[]): string[] => {
    const start = dims.slice(0, at).reduce((sum, factor) => sum + factor.length, 0)
    return [...list.slice(0, start), ...by, ...list.slice(start + by.length)]
  }
  return {
    [whole]: names[whole].map((list, at) =>
      replaced(list, dim, factors[whole][at]!, [...outer.map(() => ''), ...inner]),
    ),
    [parts]: names[parts].map((list, at) => replaced(list, dim, factors[parts][at]!, inner)),
  } as typeof names
}

/** How many outermost factors of each index are alike on all of its dims that have as many. */
function agreedFactors(
  { inputs, outputs, starts, single }: OpSignature,
  factors: { readonly inputs: readonly Factors[]; readonly outputs: readonly Factors[] },
): ReadonlyMap<string, number> {
  const lists = new Map<string, (readonly number[])[]>()
  const note = (names: readonly (readonly string[])[], of: readonly Factors[]): void =>
    names.forEach((own, at) => {
      own.forEach((index, dim) => {
        lists.set(index, [...(lists.get(index) ?? []), of[at]![dim]!])
      })
    })
  note(inputs, factors.inputs)
  note(outputs, factors.outputs)
  return new Map(
    [...lists].map(([index, all]) => {
      const longest = Math.max(...all.map(({ length }) => length))
      if (single?.includes(index) === true && longest > 1) return [index, 0]
      let agreed = 0
      const alike = (at: number): boolean =>
        new Set(all.flatMap((list) => (at < list.length ? [list[at]!] : []))).size === 1
      while (agreed < longest && alike(agreed)) agreed++
      // A cut of an outermost factor that differs in size is even on each: the rule of the op says that it may be.
      if (agreed === 0) agreed = 1
      return [index, starts?.includes(index) === true ? 1 : agreed]
    }),
  )
}

function reshapeNames(
  { inputs, outputs }: TypedOp,
  factors: { readonly inputs: readonly Factors[]; readonly outputs: readonly Factors[] },
): Pick<OpSignature, 'inputs' | 'outputs'> {
  const [before, after] = [factors.inputs[0]!, factors.outputs[0]!]
  const [left, right] = reshapeIndices(inputs[0]!.shape, outputs[0]!.shape, { from: before, to: after })
  return { inputs: [left], outputs: [right] }
}
