import { internalError } from '../base/index.ts'
import type { TimeUnit } from './timeline.ts'

/** How times of one axis are written: in one unit, with as many decimals as its length asks for. */
export interface TimeFormat {
  /** Of the axis, e.g. `ms`; `units` where times have none. */
  readonly unit: string
  /** With the decimals of `step`, without the unit: `1.50`. */
  readonly tick: (time: number, step: number) => string
  /** To a 10,000th of the axis or finer, with the unit: `12.5 ms`. */
  readonly exact: (time: number) => string
}

const secondScales = [
  { unit: 's', scale: 1 },
  { unit: 'ms', scale: 1e3 },
  { unit: 'µs', scale: 1e6 },
  { unit: 'ns', scale: 1e9 },
] as const

export function timeFormat(unit: TimeUnit, end: number): TimeFormat {
  const { unit: name, scale } =
    unit === 'units'
      ? { unit: 'units', scale: 1 }
      : (secondScales.find((candidate) => end * candidate.scale >= 1) ??
        (end > 0 ? secondScales[3] : secondScales[0]))
  const finest = decimalsOf((end * scale) / 1e4)
  return {
    unit: name,
    tick: (time, step) => formatNumber(time * scale, decimalsOf(step * scale)),
    exact: (time) => `${trimmed(time * scale, finest)} ${name}`,
  }
}

/** Round times from 0 to `end`, 1, 2 or 5 times a power of ten apart, at most so many. */
export function axisTicks(
  end: number,
  most: number,
): { readonly step: number; readonly times: readonly number[] } {
  if (!(end > 0)) return { step: 1, times: [0] }
  const rough = end / Math.max(1, most)
  const power = 10 ** Math.floor(Math.log10(rough))
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough * (1 - 1e-9)) ?? 10
  const step = factor * power
  // A step so small that it is no number of its own: an axis with one tick.
  if (!(step > 0 && Number.isFinite(step))) return { step: 1, times: [0] }
  const count = Math.floor(end / step + 1e-9)
  return { step, times: Array.from({ length: count + 1 }, (_, index) => index * step) }
}

/** Bytes in the unit that suits them, or a count of activations. */
export function formatMemory(value: number, unit: 'bytes' | 'activations'): string {
  if (unit === 'activations') return trimmed(value, 2)
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10))
  return `${trimmed(value / 1024 ** power, power === 0 ? 0 : 2)} ${units[power]}`
}

/** Fixed decimals, thousands set off by thin spaces. */
export function formatNumber(value: number, decimals: number): string {
  if (!Number.isFinite(value)) throw internalError(`${value} in a drawing`)
  // Beyond 1e21 toFixed gives an exponent, which has no thousands to set off.
  const [whole = '', rest] = value.toFixed(decimals).split('.')
  const grouped =
    whole.length > 4 && !whole.includes('e') ? whole.replace(/\B(?=(\d{3})+$)/g, '\u2009') : whole
  return rest === undefined ? grouped : `${grouped}.${rest}`
}

function trimmed(value: number, decimals: number): string {
  const text = formatNumber(value, decimals)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/** Decimals that tell apart multiples of `step`. */
function decimalsOf(step: number): number {
  return step > 0 ? Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) : 0
}
