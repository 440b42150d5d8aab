import type { Graph, Node, TensorType, ValueId } from '../../graph/index.ts'
import { type CuttableOp, cuttableOp, signatureOf, type TypedOp } from '../rules/cuttable.ts'
import { DimClasses } from './dims.ts'
import { equalParts } from './equalParts.ts'
import { reshapeGroups } from './groups.ts'
import { nameFactors } from './names.ts'

/** A graph whose values are seen by the factors of their dims. */
export interface FactoredGraph {
  /** By value: sizes of the factors of each dim, the outermost first. */
  readonly factors: readonly (readonly (readonly number[])[])[]
  /** By value: its type with every factor a dim; `axes` are the logical axes that factors are. */
  readonly types: readonly TensorType[]
  /** By node, over factors. */
  readonly ops: readonly CuttableOp[]
}

/**
 * Sees every dim that a reshape divides or makes of several as those several, wherever ops make dims go together: tokens
 * as samples and positions, the columns of a fused projection as queries, keys and values of every head. A cut of one of
 * them, which is no run of the merged dim, is then a layout like any other, and a reshape moves nothing. Where divisions of
 * a dim do not nest the first is kept. `alike` names outputs that lie as inputs do, by the name of the input, whatever makes
 * them; an output of another rank is rows of it.
 */
export function factorGraph(graph: Graph, alike: ReadonlyMap<string, string> = new Map()): FactoredGraph {
  const classes = new DimClasses()
  const dimsOf = graph.values.map(({ type }) => type.shape.map((size) => classes.add(size)))
  const typed = graph.nodes.map((node) => typedOp(graph, node))
  const relations = [...graph.nodes.entries()].flatMap(([index, node]) =>
    node.op === 'reshape'
      ? reshapeRelations(classes, dimsOf, typed[index]!, node)
      : [
          ...indexRelations(classes, dimsOf, typed[index]!, node),
          ...partRelations(classes, dimsOf, typed[index]!, node),
        ],
  )
  const inputs = new Map(graph.inputs.map(({ name, value }) => [name, dimsOf[value]!]))
  for (const { name, value } of graph.outputs) {
    const like = inputs.get(alike.get(name) ?? '')
    if (like === undefined) continue
    const own = dimsOf[value]!
    // Rows of a table have other dims instead of its first.
    const same = own.length === like.length ? like : like.slice(1)
    for (const [at, dim] of same.entries()) classes.join(dim, own[own.length - same.length + at]!)
  }
  while (relations.map((relation) => relation()).includes(true));

  const factors = dimsOf.map((dims) => dims.map((dim) => classes.factors(dim)))
  const ops = graph.nodes.map(({ inputs, outputs }, index) => {
    const of = (ids: readonly ValueId[]) => ids.map((id) => factors[id]!)
    return cuttableOp(typed[index]!, { inputs: of(inputs), outputs: of(outputs) })
  })
  const names = nameFactors(graph, factors, ops)
  const types = graph.values.map(({ type: { dtype } }, value) => ({
    dtype,
    shape: factors[value]!.flat(),
    axes: names[value]!,
  }))
  return { factors, types, ops }
}

function typedOp(graph: Graph, { op, attributes, inputs, outputs }: Node): TypedOp {
  const typesOf = (ids: readonly ValueId[]): TensorType[] => ids.map((id) => graph.values[id]!.type)
  return { op, attributes, inputs: typesOf(inputs), outputs: typesOf(outputs) }
}

/** Carries divisions from one side to the other; says whether there was a new one. */
type Relation = () => boolean

/** Dims of one index are one class where they are of one size; of one that is m times as many, m is the inner factor. */
function indexRelations(
  classes: DimClasses,
  dimsOf: readonly (readonly number[])[],
  typed: TypedOp,
  { inputs, outputs }: Node,
): Relation[] {
  const signature = signatureOf(typed)
  const byIndex = new Map<string, number[]>()
  const note = (names: readonly (readonly string[])[], ids: readonly ValueId[]): void =>
    names.forEach((own, at) => {
      own.forEach((index, position) => {
        if (index !== '') byIndex.set(index, [...(byIndex.get(index) ?? []), dimsOf[ids[at]!]![position]!])
      })
    })
  note(signature.inputs, inputs)
  note(signature.outputs, outputs)
  const relations: Relation[] = []
  for (const dims of byIndex.values()) {
    const bySize = new Map<number, number>()
    for (const dim of dims) {
      const first = bySize.get(classes.size(dim))
      if (first === undefined) bySize.set(classes.size(dim), dim)
      else classes.join(first, dim)
    }
    const sizes = [...bySize.keys()].sort((a, b) => a - b)
    for (const [at, size] of sizes.entries()) {
      const larger = sizes[at + 1]
      if (larger === undefined || larger % size !== 0) continue
      const [small, large] = [bySize.get(size)!, bySize.get(larger)!]
      relations.push(() => {
        const inner = classes.divisionsOf(large).filter((division) => division < size)
        const outer = [...classes.divisionsOf(small), size]
        return [
          ...inner.map((division) => classes.divide(small, division)),
          ...outer.map((division) => classes.divide(large, division)),
        ].includes(true)
      })
    }
  }
  return relations
}

/** Of equal parts of a dim, each is an inner factor of it. */
function partRelations(
  classes: DimClasses,
  dimsOf: readonly (readonly number[])[],
  typed: TypedOp,
  { inputs, outputs }: Node,
): Relation[] {
  const found = equalParts(typed)
  if (found === undefined || found.count === 1) return []
  const { dim, count, whole: side } = found
  const [whole, parts] = side === 'inputs' ? [inputs, outputs] : [outputs, inputs]
  const all = dimsOf[whole[0]!]![dim]!
  const own = parts.map((part) => dimsOf[part]![dim]!)
  for (const other of own) classes.join(own[0]!, other)
  return [
    () =>
      [
        classes.divide(all, count),
        ...classes.divisionsOf(own[0]!).map((division) => classes.divide(all, count * division)),
        ...classes
          .divisionsOf(all)
          .map((division) => division % count === 0 && classes.divide(own[0]!, division / count)),
      ].includes(true),
  ]
}

function reshapeRelations(
  classes: DimClasses,
  dimsOf: readonly (readonly number[])[],
  typed: TypedOp,
  { inputs, outputs }: Node,
): Relation[] {
  const relations: Relation[] = []
  for (const { left, right } of reshapeGroups(typed.inputs[0]!.shape, typed.outputs[0]!.shape)) {
    const before = left.map((dim) => dimsOf[inputs[0]!]![dim]!)
    const after = right.map((dim) => dimsOf[outputs[0]!]![dim]!)
    if (before.length === 1 && after.length === 1) classes.join(before[0]!, after[0]!)
    else
      relations.push(() => {
        const there = carry(classes, before, after)
        return carry(classes, after, before) || there
      })
  }
  return relations
}

/** Divides the dims of one side of a group where those of the other end or are divided. */
function carry(classes: DimClasses, from: readonly number[], to: readonly number[]): boolean {
  const ends: number[] = []
  let outer = 1
  for (const dim of from) {
    for (const division of classes.divisionsOf(dim)) ends.push(outer * division)
    outer *= classes.size(dim)
    ends.push(outer)
  }
  let isNew = false
  let before = 1
  for (const dim of to) {
    for (const end of ends)
      if (end > before && end < before * classes.size(dim) && end % before === 0)
        isNew = classes.divide(dim, end / before) || isNew
    before *= classes.size(dim)
  }
  return isNew
}
