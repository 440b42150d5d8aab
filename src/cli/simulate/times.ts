import type { TimeUnit } from '../../scene/index.ts'
import { formatSeconds } from '../../trace/index.ts'
import { formatTime } from '../schedule/measures.ts'

export type TimeText = (time: number) => string

/** Times in the words of their unit; units have no name in tables. */
export function timeFormat(unit: TimeUnit): TimeText {
  return unit === 'units' ? formatTime : (seconds) => formatSeconds(seconds, 4)
}

export function withUnit(unit: TimeUnit, text: string): string {
  return unit === 'units' ? `${text} units` : text
}
