import { entryActions } from './actions.ts'
import { ruleOf } from './dependences.ts'
import type { Schedule } from './types.ts'

/**
 * Most activations that each actor holds at once where the backward for inputs lets go of the half that only it needs:
 * products with weights need their inputs again for `W`, everything else is done with (Qi et al. 2023, section 3.3, where
 * what is left for W is M_W < M_B). This is how memory limits of zero-bubble schedules count. Without halves it is
 * `peakActivations`. `kept`: what is left for W, in hundredths, so that sums are exact.
 */
export function peakHeld(schedule: Schedule, kept = 50): number[] {
  return schedule.actors.map((entries) => {
    let held = 0
    let peak = 0
    for (const entry of entries) {
      const changes = entryActions(entry).map(({ phase }) => heldChange(phase, kept))
      // In a pair the forward may start before the backward ends.
      for (const change of changes.sort((a, b) => b - a)) {
        held += change
        peak = Math.max(peak, held)
      }
    }
    return peak / 100
  })
}

function heldChange(phase: string, kept: number): number {
  const { activations, halves } = ruleOf(phase)
  if (halves !== true) return 100 * activations
  return activations === 0 ? kept - 100 : -kept
}
