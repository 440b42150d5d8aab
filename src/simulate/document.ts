import type { SimulationResult } from './types.ts'

/** Longest steps of the critical path that are listed. */
const listedSteps = 20

/** The result as a JSON document. Ranks that do the same at the same times are one entry with `copies`. */
export function simulationDocument(result: SimulationResult): Readonly<Record<string, unknown>> {
  const { engine, costs, stepSeconds, idleFraction, criticalPath, bytes, calls, instructions } = result
  const seconds = { compute: 0, transfer: 0, collective: 0, move: 0 }
  for (const step of criticalPath) seconds[step.kind] += step.seconds
  const longest = [...criticalPath].sort((a, b) => b.seconds - a.seconds).slice(0, listedSteps)
  return {
    meshwrightSimulation: 1,
    engine,
    costs,
    stepSeconds,
    idleFraction,
    instructions,
    ranks: result.ranks.map((rank) => {
      const { total, ...idle } = rank.idle
      return {
        rank: rank.rank,
        copies: rank.copies,
        busySeconds: rank.busySeconds,
        idleSeconds: total,
        idle,
        arenaBytes: rank.arenaBytes,
        peakBytes: rank.peakBytes,
        peakAt: rank.peakAt,
        peakByKind: rank.peakByKind,
        peakByTier: rank.peakByTier,
        peakBuffers: rank.peakBuffers,
        peakActivations: rank.peakActivations,
      }
    }),
    bytes,
    calls,
    criticalPath: { steps: criticalPath.length, seconds, longest },
  }
}
