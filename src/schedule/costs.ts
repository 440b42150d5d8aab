import { MeshwrightError } from '../base/index.ts'
import type { StageCosts } from './generator.ts'
import type { Latencies } from './progress.ts'

/** Costs as people give them: one number for all stages, or one for each. */
export interface GivenCosts {
  readonly F: number | readonly number[]
  readonly I: number | readonly number[]
  readonly W: number | readonly number[]
  readonly hop?: number
}

/** Past this a step's time would be no finite number. */
const longestTime = 1e15

/** One unit for each F, I and W, nothing for a hop. */
export function unitCosts(stages: number): StageCosts {
  return readCosts({ F: 1, I: 1, W: 1 }, stages)
}

/**
 * Costs of each of `stages` stages, or of as many ranks (`each`). Strict: bounded, not negative, one for each where
 * listed, and some time at all.
 *
 * @throws MeshwrightError `SCHEDULE_COSTS` with the key as `at.path`
 */
export function readCosts(given: unknown, stages: number, each: 'stage' | 'rank' = 'stage'): StageCosts {
  const fail = (key: string, message: string, hint: string): never => {
    throw new MeshwrightError('SCHEDULE_COSTS', message, { at: { path: key }, hint })
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return fail('', 'the costs are no object', 'such as {"F": 1, "I": 1, "W": 1, "hop": 0}')
  const values = given as Readonly<Record<string, unknown>>
  for (const key of Object.keys(values))
    if (!['F', 'I', 'W', 'hop'].includes(key))
      fail(
        key,
        `costs have no "${key.slice(0, 40)}"`,
        'they have F, I, W and hop: a whole backward takes I + W',
      )
  const time = (key: string, value: unknown): number =>
    typeof value === 'number' && value >= 0 && value <= longestTime
      ? value
      : fail(key, `${key} is ${shown(value)}`, `a time is a number from 0 to ${longestTime}`)
  const byStage = (key: 'F' | 'I' | 'W'): number[] => {
    const value = values[key]
    if (value === undefined)
      return fail(key, `the cost of ${key} is missing`, `give F, I and W, each a number or a list by ${each}`)
    if (!Array.isArray(value)) return Array<number>(stages).fill(time(key, value))
    if (value.length !== stages)
      fail(
        key,
        `${key} lists ${value.length} ${each}s of ${stages}`,
        `give one time for each ${each}, or one for all`,
      )
    return value.map((one, stage) => time(`${key}.${stage}`, one))
  }
  const costs = {
    F: byStage('F'),
    I: byStage('I'),
    W: byStage('W'),
    hop: values['hop'] === undefined ? 0 : time('hop', values['hop']),
  }
  if ([...costs.F, ...costs.I, ...costs.W].every((one) => one === 0))
    fail('', 'all actions take no time', 'give the time of at least one')
  return costs
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : String(value).slice(0, 40)
}

/** The same as latencies of actions. */
export function latenciesOf({ F, I, W, hop }: StageCosts): Latencies {
  return { phases: { F, I, W, B: I.map((inputs, stage) => inputs + W[stage]!) }, hop }
}
