import { median } from '../src/base/index.ts'
import { ProductClock } from './products.ts'
import type { Side } from './side.ts'
import type { Bench } from './start.ts'
import { type Case, type ProductResult, type Variant, variants } from './types.ts'

export type SideName = 'ours' | Variant

const maximumStepsPerRound = 20

/** Seconds of a step: medians of the round. */
type Round = Readonly<Record<SideName, number>>

export interface Turns {
  readonly rounds: readonly Round[]
  readonly steps: number
  readonly overheads: readonly number[]
  readonly product: ProductResult | null
}

/** Rounds in which each side runs a few steps; who begins moves on by one each round. */
export async function takeTurns(
  bench: Bench,
  sides: Readonly<Record<SideName, Side>>,
  { part, shape }: Case,
): Promise<Turns> {
  const { effort } = bench
  const names: readonly SideName[] = ['ours', ...variants]
  const overheads: number[] = []
  const turn = async (name: SideName, steps: number): Promise<number> => {
    const { seconds, compute } = await sides[name].ask({ run: name, steps })
    seconds.forEach((whole, step) => {
      const inTasks = compute?.[step]
      if (inTasks !== undefined) overheads.push((whole - inTasks) / inTasks)
    })
    return median(seconds)
  }
  let slowest = 0
  for (const name of names) slowest = Math.max(slowest, await turn(name, 2))
  overheads.length = 0
  const steps = clamp(Math.round(effort.roundSeconds / slowest), 1, maximumStepsPerRound)
  const rounds: Round[] = []
  const tokens = shape.samples * shape.sequence
  const clock = part === 'a' ? new ProductClock([tokens, shape.hidden, 4 * shape.hidden]) : undefined
  const planned = clamp(
    Math.floor(effort.seconds / (names.length * steps * slowest)),
    effort.minimumRounds,
    effort.maximumRounds,
  )
  for (let round = 0; round < planned; round++) {
    const medians: Record<SideName, number> = { ours: 0, default: 0, fused: 0 }
    for (let place = 0; place < names.length; place++) {
      const name = names[(round + place) % names.length]!
      medians[name] = await turn(name, steps)
      if (name !== 'fused') await clock?.turn(name === 'ours' ? 'ours' : 'torch', sides[name])
    }
    rounds.push(medians)
    bench.onProgress((round + 1) / planned)
  }
  return { rounds, steps, overheads, product: clock?.result() ?? null }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}
