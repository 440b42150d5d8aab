/** grids of cases, whole and as a subset in which every pair of values meets. */

export type Factors<Case> = { readonly [Name in keyof Case]: readonly Case[Name][] }

/** Every combination of one value of each factor that is `allowed`, the last factor fastest. */
export function wholeGrid<Case extends object>(
  factors: Factors<Case>,
  allowed: (candidate: Case) => boolean = () => true,
): Case[] {
  let cases: Partial<Case>[] = [{}]
  for (const name of Object.keys(factors) as (keyof Case)[])
    cases = cases.flatMap((known) => factors[name].map((value) => ({ ...known, [name]: value })))
  return (cases as Case[]).filter(allowed)
}

/**
 * A small part of the grid that holds every pair of values, of two factors, that some allowed case of the grid holds.
 * Greedy: always the case that brings most pairs which are not there yet, of several the one whose values are rarest so far.
 */
export function pairwiseSubset<Case extends object>(
  factors: Factors<Case>,
  allowed: (candidate: Case) => boolean = () => true,
): Case[] {
  const grid = wholeGrid(factors, allowed).map((candidate) => ({
    candidate,
    pairs: pairsOf(factors, candidate),
  }))
  const missing = new Set(grid.flatMap(({ pairs }) => pairs))
  const uses = new Map<string, number>()
  const chosen: Case[] = []
  while (missing.size > 0) {
    let best = grid[0]!
    let [most, rarest] = [0, 0]
    for (const entry of grid) {
      const gain = entry.pairs.reduce((sum, pair) => sum + (missing.has(pair) ? 1 : 0), 0)
      if (gain < most) continue
      const used = entry.pairs.reduce((sum, pair) => sum + (uses.get(pair) ?? 0), 0)
      if (gain > most || used < rarest) [best, most, rarest] = [entry, gain, used]
    }
    chosen.push(best.candidate)
    for (const pair of best.pairs) {
      missing.delete(pair)
      uses.set(pair, (uses.get(pair) ?? 0) + 1)
    }
  }
  return chosen
}

function pairsOf<Case extends object>(factors: Factors<Case>, candidate: Case): string[] {
  const names = Object.keys(factors) as (keyof Case)[]
  return names.flatMap((first, index) =>
    names
      .slice(index + 1)
      .map((second) => JSON.stringify([first, candidate[first], second, candidate[second]])),
  )
}
