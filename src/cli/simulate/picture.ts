import {
  makeScene,
  type SvgOptions,
  sceneToSvg,
  type TimelineMemory,
  timelineOfTrace,
} from '../../scene/index.ts'
import { memoryPoints, simulationTrace } from '../../simulate/index.ts'
import { counted } from '../format.ts'
import { rowName, traceOfRows } from './rows.ts'
import type { Simulated } from './simulatePlan.ts'
import { idleText } from './summary.ts'

/** Rows that a scene draws. */
const mostRows = 256

export interface PictureOptions {
  readonly theme: NonNullable<SvgOptions['theme']>
  /** Pixels. */
  readonly width?: number
}

/**
 * The step as an SVG document: the ranks where they are few, else one of each that do the same at the same times, with
 * streams as lanes and memory over time.
 */
export function simulationSvg(simulated: Simulated, { theme, width }: PictureOptions): string {
  const { result, costs, compiled } = simulated
  const { plan, model } = compiled
  const rows = simulated.rows.slice(0, mostRows)
  const capacity = plan.deviceBytes
  const memory = rows.map(
    ({ result: { peakBytes, peakAt }, simulated: rank }): TimelineMemory => ({
      unit: 'bytes',
      ...(capacity === null ? {} : { capacity }),
      peak: { value: peakBytes, at: peakAt },
      points: memoryPoints(result.times, rank),
    }),
  )
  const left = simulated.rows.length - rows.length
  const trace = traceOfRows(simulationTrace(result), rows)
  // What takes no time would only be a lane with nothing in it.
  const events = trace.events.filter(({ start, end }) => end > start)
  const timeline = timelineOfTrace(
    { ...trace, events },
    {
      title: `${model.name} on ${counted(plan.ranks.length, 'rank')}, one step predicted`,
      unit: costs.unit,
      rowLabel: (row) => rowName(rows[row]!),
      memory,
      notes: [
        `Idle ${idleText(result)}.`,
        `Costs: ${costs.description}.`,
        ...(left > 0 ? [`${counted(left, 'further row')} of ranks that do other things.`] : []),
      ],
    },
  )
  return sceneToSvg(makeScene(timeline, width === undefined ? {} : { width }), { theme })
}
