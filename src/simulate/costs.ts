import { internalError } from '../base/index.ts'
import { phaseLatency } from '../schedule/index.ts'
import type { CostModel, RunContext, TransferCost } from './types.ts'

export const noTransfer: TransferCost = { busy: 0, latency: 0, receive: 0 }

/**
 * Phases take the schedule room's latencies, an update one unit so that it can be seen; communication, moves and what
 * the schedule does not name take no time. Runs of one action share its time.
 */
export function unitCosts(): CostModel {
  const known = new Map<string, number>()
  return {
    name: 'unit',
    run: (context) => {
      const { action, share, task } = context
      if (task.kind === 'missing' && task.cost !== undefined) return task.cost
      if (action === undefined) return 0
      let time = known.get(action.phase)
      if (time === undefined) {
        time = action.phase === 'U' ? 1 : sumOfLetters(context, phaseLatency)
        known.set(action.phase, time)
      }
      return time * share
    },
    transfer: () => noTransfer,
    collective: () => 0,
    move: () => 0,
  }
}

/** A fused action takes what the actions it is made of take. */
export function sumOfLetters(
  { action }: Pick<RunContext, 'action'>,
  time: (letter: string) => number,
): number {
  if (action === undefined) throw internalError('letters of no action')
  return [...action.phase].reduce((sum, letter) => sum + time(letter), 0)
}
