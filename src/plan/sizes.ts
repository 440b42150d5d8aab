const units: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
}

/** A number and a unit, decimal (`MB`) or binary (`MiB`). */
export const sizePattern: RegExp = new RegExp(
  `^[0-9]{1,16}(\\.[0-9]{1,6})? ?(${Object.keys(units).join('|')})$`,
)

/** Bytes of `2GiB` or `1.5 MB`; undefined when that is no size, or not a whole number of bytes. */
export function parseSize(text: string): number | undefined {
  if (!sizePattern.test(text)) return undefined
  const unit = /[A-Za-z]+$/.exec(text)![0]
  const bytes = Number(text.slice(0, -unit.length)) * units[unit]!
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** The shortest exact form: `4MiB`, or the number of bytes where no binary unit divides it. */
export function formatSize(bytes: number): string | number {
  for (const unit of ['TiB', 'GiB', 'MiB', 'KiB'])
    if (bytes >= units[unit]! && bytes % units[unit]! === 0) return `${bytes / units[unit]!}${unit}`
  return bytes
}
