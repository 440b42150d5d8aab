/** Columns padded to their widest cell; numbers (cells of digits, – for none) to the right. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const numeric = header.map((_, column) =>
    rows.every((row) =>
      /^(–|[-+]?[\d.,]+(e[-+]?\d+)?( ?[%KMGTi]*B?(\/s)?)?( [mµ]?s)?)$/.test(row[column] ?? ''),
    ),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        numeric[column] === true ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd()
  return [line(header), ...rows.map(line)]
}

export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`
}

export function formatSeconds(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 90) return `${seconds.toFixed(1)} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 90
    ? `${minutes} min ${Math.round(seconds % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** `1 rank`, `2 ranks`. */
export function counted(count: number, one: string, several: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : several}`
}

export function formatCount(count: number): string {
  return Math.round(count).toLocaleString('en-US')
}

/** Three significant digits in scientific form, `0` for nothing. */
export function formatError(error: number): string {
  return error === 0 ? '0' : error.toExponential(1)
}
