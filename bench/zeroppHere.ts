import { compile, learningRateOf, lowerVerified } from '../src/cli/prepare.ts'
import { createLocalEngine, type Engine } from '../src/engine/index.ts'
import { initialState } from '../src/engine/training/initialState.ts'
import { stepInput } from '../src/engine/training/step.ts'
import { parsePlan } from '../src/plan/index.ts'
import { spread } from './statistics.ts'
import type { Spread } from './types.ts'

export interface MeasuredPlan {
  readonly name: string
  readonly ranks: number
  readonly seconds: Spread
  /** Of a rank and step. */
  readonly gathers: number
  readonly gatheredBytes: number
}

interface Runner {
  readonly name: string
  readonly engine: Engine
  readonly step: () => Promise<number>
  readonly seconds: number[]
  gathers: number
  gatheredBytes: number
}

const model = 'gpt:layers=8,hidden=128,heads=4,context=128,vocab=512'
const shape = { samples: 16, microbatches: 8 }

const settings: readonly { name: string; mesh: object; schedule: object; zero: unknown }[] = [
  {
    name: 'interleaved-1f1b, 4 chunks, ZeRO-3 for each action',
    mesh: { pipeline: 1, data: 2 },
    schedule: { name: 'interleaved-1f1b', chunks: 4 },
    zero: { stage: 3, keepLast: true },
  },
  {
    name: 'zeropp, 4 chunks, unit 4',
    mesh: { pipeline: 1, data: 2 },
    schedule: { name: 'zeropp', chunks: 4, unit: 4 },
    zero: { stage: 3, keepLast: true },
  },
  {
    name: '1f1b, ZeRO-3 for each action',
    mesh: { pipeline: 2, data: 2 },
    schedule: { name: '1f1b' },
    zero: { stage: 3, keepLast: true },
  },
  {
    name: 'zeropp, 2 chunks, unit 4',
    mesh: { pipeline: 2, data: 2 },
    schedule: { name: 'zeropp', chunks: 2, unit: 4 },
    zero: { stage: 3, keepLast: true },
  },
]

/** Steps of each plan on this machine, plans in turns, medians and quartiles of `rounds` rounds after one to warm up. */
export async function measureHere(rounds: number): Promise<MeasuredPlan[]> {
  const runners: Runner[] = []
  try {
    for (const setting of settings) runners.push(await start(setting))
    for (let round = 0; round <= rounds; round++)
      for (const runner of runners) {
        const seconds = await runner.step()
        if (round > 0) runner.seconds.push(seconds)
      }
    return runners.map(({ name, engine, seconds, gathers, gatheredBytes }) => ({
      name,
      ranks: engine.program.mesh.submeshes.reduce(
        (sum, axes) => sum + axes.reduce((product, { size }) => product * size, 1),
        0,
      ),
      seconds: spread(seconds),
      gathers,
      gatheredBytes,
    }))
  } finally {
    for (const { engine } of runners) await engine.stop()
  }
}

async function start({ name, mesh, schedule, zero }: (typeof settings)[number]): Promise<Runner> {
  const document = parsePlan(
    JSON.stringify({ meshwright: 1, model, mesh, schedule, zero, batch: shape, recompute: 'none' }),
  )
  const compiled = compile({ document, directory: '.', source: 'the benchmark' })
  const { plan, optimizer } = compiled
  const engine = await createLocalEngine(lowerVerified(compiled))
  await engine.writeState(initialState({ model: compiled.model, optimizer, dtype: plan.dtype, seed: 1 }))
  const size = plan.samples * plan.sequence
  const tokens = Int32Array.from({ length: size }, (_, index) => (index * 7919) % 512)
  const labels = Int32Array.from({ length: size }, (_, index) => (index * 104_729) % 512)
  const learningRate = learningRateOf(document, 1000)
  let count = 0
  const runner: Runner = {
    name,
    engine,
    seconds: [],
    gathers: 0,
    gatheredBytes: 0,
    step: async () => {
      const input = stepInput(count++, { tokens, labels, targets: size }, optimizer, learningRate)
      const began = performance.now()
      const { ranks } = await engine.step(input)
      const seconds = (performance.now() - began) / 1000
      const counted = ranks[0]?.collectives['allGather']
      runner.gathers = counted?.calls ?? 0
      runner.gatheredBytes = counted?.wireBytes ?? 0
      return seconds
    },
  }
  return runner
}
