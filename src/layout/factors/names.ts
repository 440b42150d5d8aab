import type { Graph } from '../../graph/index.ts'
import type { CuttableOp } from '../rules/cuttable.ts'

/** Names that say how dims came together, and not what they are. */
const merged: readonly string[] = ['', 'tokens', 'qkv']
/** Taken only where there is no better one: rows of a table of positions go with those of a sequence. */
const weak: readonly string[] = ['position']

/**
 * The logical axis that each factor of each value is: what dims that consist of it alone are called, wherever ops make them
 * go together; of a part of a dim that is never alone, the dim's name and the place of the part. '' where nothing names it.
 */
export function nameFactors(
  graph: Graph,
  factors: readonly (readonly (readonly number[])[])[],
  ops: readonly CuttableOp[],
): readonly (readonly string[])[] {
  const offsets: number[] = []
  let count = 0
  for (const dims of factors) {
    offsets.push(count)
    count += dims.flat().length
  }
  const parents = Array.from({ length: count }, (_, index) => index)
  const root = (of: number): number => {
    let at = of
    while (parents[at] !== at) at = parents[at]!
    parents[of] = at
    return at
  }
  for (const [index, { inputs, outputs }] of graph.nodes.entries()) {
    const { signature } = ops[index]!
    const byIndex = new Map<string, number>()
    const note = (names: readonly (readonly string[])[], ids: readonly number[]): void =>
      names.forEach((own, at) => {
        own.forEach((name, factor) => {
          if (name === '') return
          const found = root(offsets[ids[at]!]! + factor)
          const known = byIndex.get(name)
          if (known === undefined) byIndex.set(name, found)
          else parents[Math.max(found, root(known))] = Math.min(found, root(known))
        })
      })
    note(signature.inputs, inputs)
    note(signature.outputs, outputs)
  }
  const votes = new Map<number, Map<string, number>>()
  const vote = (factor: number, name: string, weight: number): void => {
    const of = root(factor)
    const known = votes.get(of) ?? new Map<string, number>()
    votes.set(of, known.set(name, (known.get(name) ?? 0) + weight))
  }
  graph.values.forEach(({ type: { axes } }, value) => {
    let factor = offsets[value]!
    factors[value]!.forEach((parts, dim) => {
      const name = axes?.[dim] ?? ''
      parts.forEach((_, part) => {
        if (!merged.includes(name))
          vote(factor, parts.length === 1 ? name : `${name}.${part}`, weightOf(name, parts.length))
        factor++
      })
    })
  })
  const best = new Map([...votes].map(([of, names]) => [of, mostVotes(names)]))
  return factors.map((dims, value) =>
    dims.flat().map((_, factor) => best.get(root(offsets[value]! + factor)) ?? ''),
  )
}

/** The fewer parts a dim has, the more its name says of each. */
function weightOf(name: string, parts: number): number {
  if (parts > 1) return 1e-6 ** parts
  return weak.includes(name) ? 1e-3 : 1
}

function mostVotes(names: ReadonlyMap<string, number>): string {
  return [...names].reduce((best, next) => (next[1] > best[1] ? next : best))[0]
}
