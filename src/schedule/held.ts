import { entryActions } from './actions.ts'
import { ruleOf } from './dependences.ts'
import type { Schedule } from './types.ts'

/**
 * Most activations that each actor holds at once where the backward for inputs lets go of the half that only it needs:
 * products with weights need their inputs again for `W`, everything else is done with (Qi et al. 2023, section 3.3, where
 * what is left for W is M_W < M_B). This is how memory limits of zero-bubble schedules count. Without halves it is
 * `peakActivations`.
 */
export function peakHeld(schedule: Schedule): number[] {
  return schedule.actors.map((entries) => {
    let held = 0
    let peak = 0
    for (const entry of entries) {
      const changes = entryActions(entry).map(({ phase }) => heldChange(phase))
      // In a pair the forward may start before the backward ends.
      for (const change of changes.sort((a, b) => b - a)) {
        held += change
        peak = Math.max(peak, held)
      }
    }
    return peak
  })
}

function heldChange(phase: string): number {
  const { activations, halves } = ruleOf(phase)
  return halves === true ? -0.5 : activations
}
