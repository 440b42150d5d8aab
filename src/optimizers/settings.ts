import { didYouMean, MeshwrightError } from '../base/index.ts'

/** One setting of an optimizer or of a learning rate; help and checks are made from these. */
export interface SettingInfo {
  readonly name: string
  readonly summary: string
  /** Its type is the setting's type; absent where the setting must be given. */
  readonly default?: number | boolean
  readonly range?: {
    readonly minimum?: number
    /** Exclusive. */
    readonly above?: number
    readonly maximum?: number
    /** Exclusive. */
    readonly below?: number
    readonly whole?: true
  }
}

/** `given` with defaults filled in, every value checked. `of` says whose settings they are. Throws `code`. */
export function readSettings(
  code: string,
  of: string,
  infos: readonly SettingInfo[],
  given: Readonly<Record<string, unknown>>,
): Record<string, number | boolean> {
  for (const name of Object.keys(given)) {
    const names = infos.map((info) => info.name)
    if (!names.includes(name))
      throw new MeshwrightError(code, `${of} has no setting "${name}"`, {
        at: { path: name },
        hint: didYouMean(name, names) ?? (names.length > 0 ? `it has ${names.join(', ')}` : 'it has none'),
      })
  }
  return Object.fromEntries(infos.map((info) => [info.name, readSetting(code, of, info, given[info.name])]))
}

function readSetting(code: string, of: string, info: SettingInfo, given: unknown): number | boolean {
  const value = given ?? info.default
  const refuse = (hint: string): MeshwrightError =>
    new MeshwrightError(code, `${info.name} of ${of} is ${JSON.stringify(value) ?? 'not given'}`, {
      at: { path: info.name },
      hint,
    })
  if (typeof info.default === 'boolean') {
    if (typeof value !== 'boolean') throw refuse(`${info.name} is true or false`)
    return value
  }
  const range = info.range ?? {}
  const fits =
    typeof value === 'number' &&
    Number.isFinite(value) &&
    value >= (range.minimum ?? Number.NEGATIVE_INFINITY) &&
    value > (range.above ?? Number.NEGATIVE_INFINITY) &&
    value <= (range.maximum ?? Number.POSITIVE_INFINITY) &&
    value < (range.below ?? Number.POSITIVE_INFINITY) &&
    (range.whole === undefined || Number.isSafeInteger(value))
  if (!fits) throw refuse(`${info.name} is ${describeRange(range)}`)
  return value
}

function describeRange(range: NonNullable<SettingInfo['range']>): string {
  const limits = [
    range.minimum === undefined ? undefined : `at least ${range.minimum}`,
    range.above === undefined ? undefined : `above ${range.above}`,
    range.maximum === undefined ? undefined : `at most ${range.maximum}`,
    range.below === undefined ? undefined : `below ${range.below}`,
  ].filter((limit) => limit !== undefined)
  return [range.whole === undefined ? 'a number' : 'a whole number', limits.join(' and ')]
    .filter((part) => part !== '')
    .join(', ')
}
