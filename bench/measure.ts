import { exitCodes, MeshwrightError, median } from '../src/base/index.ts'
import { caseName } from './cases.ts'
import type { OursHello } from './job.ts'
import { ProductClock } from './products.ts'
import type { Side } from './side.ts'
import { type Bench, startOurs, startTorch, writeJob } from './start.ts'
import { spread } from './statistics.ts'
import { type SideName, takeTurns } from './turns.ts'
import type { Case, CaseResult, ProductResult, SideTimes, Variant } from './types.ts'

/** Steps whose losses must agree. The first has no update before it, the others have. */
const checkedSteps = 3
const largestLossDifference = 1e-4

/** Both sides of one case from the same weights and batches, in turns. */
export async function measureCase(bench: Bench, one: Case): Promise<CaseResult> {
  const job = writeJob(bench, one)
  const ours = await startOurs<OursHello>(bench, job)
  try {
    const { stages, parameters } = ours.hello
    const torch = await startTorch(bench, { ...job, stages }, one.ranks)
    try {
      const sides = { ours: ours.side, default: torch.side, fused: torch.side }
      const { peakBytes, lossDifference } = await warmUp(sides, one)
      const turns = await takeTurns(bench, sides, one)
      const times = (name: SideName): SideTimes => ({
        seconds: spread(turns.rounds.map((round) => round[name])),
        peakBytes: name === 'ours' ? peakBytes.ours : name === 'default' ? peakBytes.default : null,
      })
      const ratio = (name: Variant) => spread(turns.rounds.map((round) => round.ours / round[name]))
      return {
        case: one,
        parameters,
        stages,
        rounds: turns.rounds.length,
        stepsPerRound: turns.steps,
        ours: times('ours'),
        torch: { default: times('default'), fused: times('fused') },
        ratio: { default: ratio('default'), fused: ratio('fused') },
        overhead: median(turns.overheads),
        product: turns.product,
        lossDifference,
      }
    } finally {
      await torch.side.stop()
    }
  } finally {
    await ours.side.stop()
  }
}

/** Operations a second of one matrix product on either side, and the version of ONNX Runtime that ran ours. */
export async function measureProduct(
  bench: Bench,
): Promise<{ readonly product: ProductResult; readonly onnxRuntime: string }> {
  const sizes = [1024, 512, 2048] as const
  const ours = await startOurs<Pick<OursHello, 'onnxRuntime'>>(bench, null)
  try {
    const torch = await startTorch(bench, null, 1)
    try {
      const clock = new ProductClock(sizes)
      const turns = bench.effort.maximumRounds
      for (let turn = 0; turn < turns; turn++) {
        await clock.turn('ours', ours.side)
        await clock.turn('torch', torch.side)
        bench.onProgress((turn + 1) / turns)
      }
      return { product: clock.result(), onnxRuntime: ours.hello.onnxRuntime }
    } finally {
      await torch.side.stop()
    }
  } finally {
    await ours.side.stop()
  }
}

/**
 * The first steps of each side, not timed. That their losses agree shows that both do the same work. PyTorch's fused
 * form is made only after its memory was asked for, so that this is the memory of one model.
 */
async function warmUp(
  sides: Readonly<Record<SideName, Side>>,
  one: Case,
): Promise<{
  readonly peakBytes: { readonly ours: number | null; readonly default: number | null }
  readonly lossDifference: number
}> {
  const ours = await sides.ours.ask({ run: 'ours', steps: checkedSteps })
  let lossDifference = 0
  const compare = async (name: Variant): Promise<void> => {
    const { losses } = await sides[name].ask({ run: name, steps: checkedSteps })
    losses.forEach((loss, step) => {
      const difference = Math.abs(ours.losses[step]! - loss) / loss
      // Not a number is no agreement either.
      if (!(difference <= largestLossDifference))
        throw new MeshwrightError(
          'BENCH_LOSSES_DIFFER',
          `${caseName(one)}: the loss of step ${step + 1} is ${ours.losses[step]} here and ${loss} in PyTorch`,
          { exitCode: exitCodes.run },
        )
      lossDifference = Math.max(lossDifference, difference)
    })
  }
  await compare('default')
  const peakBytes = {
    ours: (await sides.ours.ask({ memory: true })).bytes,
    default: (await sides.default.ask({ memory: true })).bytes,
  }
  await compare('fused')
  return { peakBytes, lossDifference }
}
