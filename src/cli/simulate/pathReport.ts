import type { CriticalStep, SimulationResult } from '../../simulate/index.ts'
import { formatCount, table } from '../format.ts'
import { formatShare } from '../schedule/measures.ts'
import type { Simulated } from './simulatePlan.ts'
import { type CriticalPart, criticalParts, criticalReasons, instructionText, transfersOf } from './summary.ts'
import type { TimeText } from './times.ts'

/** What a step of the critical path waited for, by why it began no earlier. */
const reasons: Readonly<Record<CriticalStep['reason'], string>> = {
  start: 'nothing',
  data: 'data',
  order: 'its turn in the stream',
  resource: 'another stream of its resource',
  slot: 'room in the channel',
  collective: 'other members',
}

/** What the length of the step hangs on: the critical path, and transfers that may not come later. */
export function criticalLines(result: SimulationResult, time: TimeText, verbose: boolean): string[] {
  const { criticalPath, stepSeconds } = result
  const share = (seconds: number): string => (stepSeconds > 0 ? formatShare(seconds / stepSeconds, 1) : '–')
  const parts = criticalParts(result).filter(({ seconds }) => seconds > 0)
  if (parts.length === 0) return ['critical path: nothing takes time']
  const waited = Object.entries(criticalReasons(result))
    // What would be written 0.0% says nothing.
    .filter(([reason, seconds]) => reason !== 'start' && seconds >= 5e-4 * stepSeconds && seconds > 0)
    .sort((a, b) => b[1] - a[1])
    .map(([reason, seconds]) => `${reasons[reason as CriticalStep['reason']]} ${share(seconds)}`)
  return [
    ...table(
      ['critical path', 'steps', 'time', 'share'],
      parts.map((part) => [partName(part), formatCount(part.steps), time(part.seconds), share(part.seconds)]),
    ),
    ...(waited.length === 0 ? [] : [`its steps waited for ${waited.join(', ')}`]),
    ...(verbose ? ['', ...firstSteps(result, criticalPath.slice(0, 12), time)] : []),
  ]
}

function partName({ kind, phase }: CriticalPart): string {
  if (kind === 'compute') return phase ?? 'other runs'
  return { transfer: 'transfers', collective: 'collectives', move: 'moves' }[kind]
}

function firstSteps(result: SimulationResult, steps: readonly CriticalStep[], time: TimeText): string[] {
  return table(
    ['first steps', 'from', 'time', 'what', 'waited for'],
    steps.map(({ rank, instruction, start, seconds, reason }) => [
      `rank ${rank}`,
      time(start),
      time(seconds),
      instructionText(result, rank, instruction),
      reasons[reason],
    ]),
  )
}

export function transferLines({ result, rows }: Simulated, time: TimeText, verbose: boolean): string[] {
  const { count, withoutSlack, least } = transfersOf(result, rows, verbose ? 12 : 3)
  if (count === 0) return []
  return [
    '',
    ...table(
      ['least slack', 'to', 'what', 'there at', 'slack', 'before it is needed'],
      least.map(({ from, to, send, arrival, local, total }) => [
        `rank ${from}`,
        `rank ${to}`,
        send,
        time(arrival),
        time(total),
        time(local),
      ]),
    ),
    `${formatCount(withoutSlack)} of ${formatCount(count)} transfers make the step longer if they come later`,
  ]
}
