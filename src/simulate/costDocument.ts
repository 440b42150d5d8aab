import { MeshwrightError } from '../base/index.ts'

type Fields = Readonly<Record<string, unknown>>

/** Entries of a table past which it is refused. */
const mostEntries = 100_000

/** Past these a step's time would be no finite number. */
const longestTime = 1e15
const slowestRate = 1e-3

/** Reads costs as people or calibrations give them, strictly: every complaint is `SIMULATE_COSTS` with the path. */
export function costError(path: string, message: string, hint: string): MeshwrightError {
  return new MeshwrightError('SIMULATE_COSTS', message, { at: { path }, hint })
}

/** An object with some of these keys and no others. */
export function readFields(path: string, value: unknown, keys: readonly string[]): Fields {
  const fields = readTable(path, value)
  for (const key of Object.keys(fields))
    if (!keys.includes(key))
      throw costError(
        join(path, key.slice(0, 40)),
        `there is no cost "${key.slice(0, 40)}"`,
        `costs here are ${keys.join(', ')}`,
      )
  return fields
}

/** An object with any keys. */
export function readTable(path: string, value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw costError(path, `${path === '' ? 'the costs are' : `${path} is`} no object`, 'it is a JSON object')
  if (Object.keys(value).length > mostEntries)
    throw costError(path, `more than ${mostEntries} entries`, 'no plan has as many tasks')
  return value as Fields
}

/** From 0 to `longestTime`. */
export function readTime(path: string, value: unknown): number {
  if (value === undefined) throw costError(path, `the cost ${path} is missing`, 'give it as a number')
  if (typeof value !== 'number' || !(value >= 0 && value <= longestTime))
    throw costError(path, `${path} is ${shown(value)}`, `a time is a number from 0 to ${longestTime}`)
  return value
}

export function readRate(path: string, value: unknown): number {
  if (typeof value !== 'number' || !(value >= slowestRate && value < Number.POSITIVE_INFINITY))
    throw costError(
      path,
      value === undefined ? `${path} is missing` : `${path} is ${shown(value)}`,
      `a rate is a finite number from ${slowestRate}`,
    )
  return value
}

export function readCount(path: string, value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1)
    throw costError(path, `${path} is ${shown(value)}`, 'it is a whole number from 1')
  return value
}

/** One time for all stages, or a list with one for each. */
export function readStageTimes(path: string, value: unknown, stages: number): readonly number[] {
  if (!Array.isArray(value)) return Array<number>(stages).fill(readTime(path, value))
  if (value.length !== stages)
    throw costError(
      path,
      `${path} lists ${value.length} stages of ${stages}`,
      'give one time for each stage, or one for all',
    )
  return value.map((time, stage) => readTime(`${path}.${stage}`, time))
}

export function readText(path: string, value: unknown): string {
  if (typeof value !== 'string' || value.length > 1000)
    throw costError(path, `${path} is ${shown(value)}`, 'it is a text')
  return value
}

export function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing'
  return (typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : String(value)).slice(0, 42)
}
