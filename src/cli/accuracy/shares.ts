import { type Trace, timeShares } from '../../trace/index.ts'

/** Where a step goes, in seconds: the mean over the ranks. They add up to the step. */
export interface StepShares {
  readonly compute: number
  /** Copies of messages while nothing computes, and moves. */
  readonly transfer: number
  /** From when the last member has come. */
  readonly collective: number
  /** Waiting for others, and everything that belongs to no instruction. */
  readonly rest: number
}

export const shareNames = ['compute', 'transfer', 'collective', 'rest'] as const

/** The shares of one step, measured or predicted, that takes `seconds` as a whole. */
export function stepShares(trace: Trace, seconds: number): StepShares {
  const shares = timeShares(trace)
  const mean = (total: number): number => total / trace.ranks
  const compute = mean(shares.reduce((sum, share) => sum + share.compute, 0))
  const communication = mean(shares.reduce((sum, share) => sum + share.transfer, 0))
  const collective = mean(
    trace.events.reduce(
      (sum, { kind, start, end, wait = 0 }) => (kind === 'collective' ? sum + end - start - wait : sum),
      0,
    ),
  )
  const transfer = Math.max(0, communication - collective)
  return { compute, transfer, collective, rest: seconds - compute - transfer - collective }
}
