import type { StageGraph } from '../types.ts'

/** V placement: actor r of P owns stages r and 2P - 1 - r, so the chain goes down through all actors and back up. */
export function placeV(actors: number): readonly number[] {
  return Array.from({ length: 2 * actors }, (_, stage) => Math.min(stage, 2 * actors - 1 - stage))
}

/** Why a stage graph is no chain in V placement, if it is none. */
export function refuseUnlessV({ stages, placement, edges }: StageGraph): string | undefined {
  if (stages % 2 === 1) return `it needs two stages on each actor, and ${stages} stages are an odd number`
  const wanted = placeV(stages / 2)
  const stage = placement.findIndex((actor, at) => actor !== wanted[at])
  if (stage >= 0)
    return `it needs stages r and ${stages} - 1 - r on actor r, so stage ${stage} on actor ${wanted[stage]}, and it is on actor ${placement[stage]}`
  const chain = new Set(edges.map(([from, to]) => (to === from + 1 ? from : -1)))
  return chain.has(-1) || chain.size !== stages - 1
    ? 'it needs a chain of stages, each feeding just the next'
    : undefined
}
