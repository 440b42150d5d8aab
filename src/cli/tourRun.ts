import { rmSync } from 'node:fs'
import { exitCodes } from '../base/index.ts'
import { compareTensors, type Engine } from '../engine/index.ts'
import { formatFinding, type Program, verifyProgram } from '../program/index.ts'
import { drawTimeline, traceFromStep } from '../trace/index.ts'
import { serial } from './checkPlan.ts'
import { drawProgram } from './drawProgram.ts'
import { formatBytes, formatCount, formatError, formatSeconds, table } from './format.ts'
import { catchInterrupts } from './interrupt.ts'
import { type Compiled, compile, lowerVerified } from './prepare.ts'
import { Progress } from './progress.ts'
import { swapTwoSends } from './sabotage.ts'
import { loadPlan } from './setup.ts'
import { paint, paintPhase } from './style.ts'
import { runTraining, type TrainingOutcome } from './training.ts'
import { rankTable, startLine } from './trainingReport.ts'

const folder = 'runs/tour'

/** So many that the whole tour takes about 90 seconds on two cores. */
const steps = 500
const quickSteps = 20

function say(...lines: readonly string[]): void {
  process.stdout.write(`${lines.join('\n')}\n`)
}

export async function tour(options: {
  readonly quick: boolean
  readonly act: number | undefined
}): Promise<void> {
  const { quick, act } = options
  const compiled = compile(await loadPlan(undefined, {}))
  const program = lowerVerified(compiled)
  if (act === undefined || act === 1) actOne(compiled, program)
  if ((act === undefined || act === 2) && !(await interruptible(compiled, quick ? quickSteps : steps))) {
    process.exitCode = exitCodes.interrupted
    return
  }
  if (act === undefined || act === 3) actThree(program)
}

/** Act two under Ctrl-C: the first ends it after the step, the second at once. False when interrupted. */
async function interruptible(compiled: Compiled, stepCount: number): Promise<boolean> {
  let engine: Engine | undefined
  const interrupts = catchInterrupts(
    () => process.stderr.write('\nstopping after this step\n'),
    () => void engine?.stop(),
  )
  try {
    return await actTwo(compiled, stepCount, {
      asked: interrupts.asked,
      onEngine: (made) => {
        engine = made
      },
    })
  } catch (error) {
    if (!interrupts.asked()) throw error
    return false
  } finally {
    interrupts.release()
  }
}

interface Interruption {
  readonly asked: () => boolean
  readonly onEngine: (engine: Engine) => void
}

function actOne(compiled: Compiled, program: Program): void {
  say(
    paint.bold('Act one: a plan, compiled'),
    `${compiled.model.name}: pipeline 2 x data 2, four micro-batches, 1F1B. F forward, B backward, FB both at once, U update;`,
    'the number is the micro-batch, a blank is time spent waiting. One column is one forward.',
    '',
    ...drawProgram(compiled.plan, program),
    '',
    'Verified: no rank can wait for another in a circle, every value is written before it is read, and freed once.',
    paint.dim('again: npx meshwright show --grid; instruction by instruction: npx meshwright show --rank 0'),
    '',
  )
}

/** Trains in parallel, then the same steps serially. False when interrupted. */
async function actTwo(compiled: Compiled, steps: number, interruption: Interruption): Promise<boolean> {
  say(paint.bold('Act two: the same plan, trained for real'))
  rmSync(folder, { recursive: true, force: true })
  const parallel = await trainLive(compiled, steps, interruption, 'four ranks', folder)
  if (interruption.asked()) return false
  say(
    `loss ${paint.bold(parallel.lastLoss!.toFixed(3))} after ${steps} steps; counting tokens alone would reach ${parallel.unigramEntropy.toFixed(3)} (unigram entropy of the text)`,
    '',
    ...rankTable(compiled, parallel.ranks),
    '',
    'Its last step as measured (a dot is a transfer, a blank is waiting):',
    ...measured(parallel),
    '',
    'The same steps serially, on one rank with whole batches:',
  )
  const alone = await trainLive(serial(compiled), steps, interruption, 'one rank', undefined)
  if (interruption.asked()) return false
  const parameters = new Set(compiled.model.parameters.map(({ name }) => name))
  const pick = (outcome: TrainingOutcome): TrainingOutcome['state'] =>
    new Map([...outcome.state].filter(([name]) => parameters.has(name)))
  const worst = compareTensors(pick(parallel), pick(alone))[0]!
  const lossGap = (count: number): number =>
    Math.max(...parallel.losses.slice(0, count).map((loss, step) => Math.abs(loss - alone.losses[step]!)))
  const rate = (outcome: TrainingOutcome): string =>
    `${formatCount(outcome.tokens / outcome.seconds)} tokens/s`
  say(
    '',
    ...table(
      ['', 'last loss', 'speed', 'buffers of a rank'],
      [
        ['four ranks', parallel.lastLoss!.toFixed(6), rate(parallel), buffers(parallel)],
        ['one rank', alone.lastLoss!.toFixed(6), rate(alone), buffers(alone)],
      ],
    ),
    '',
    `largest difference in loss: ${formatError(lossGap(quickSteps))} nats over the first ${quickSteps} steps, ${formatError(lossGap(steps))} over all ${steps};`,
    `in parameters after the last: ${formatError(worst.error)} of their size (${worst.name}).`,
    ...(worst.name.endsWith('attn.c_attn.bias')
      ? ['A key bias has a true gradient of zero, so Adam there takes steps made of rounding alone.']
      : []),
    'That is rounding in float32, which training carries on. In float64 they agree to 1e-9: npx meshwright check --run',
    '',
    `written: ${parallel.files.join(', ')}`,
    paint.dim(`again: npx meshwright train --steps ${steps} --out runs/mine`),
    '',
  )
  return true
}

async function trainLive(
  compiled: Compiled,
  steps: number,
  interruption: Interruption,
  label: string,
  out: string | undefined,
): Promise<TrainingOutcome> {
  const progress = new Progress(label)
  const outcome = await runTraining({
    loaded: { document: compiled.document, directory: process.cwd(), source: 'the default plan' },
    compiled,
    steps,
    ...(out === undefined ? {} : { out }),
    validateEvery: 0,
    checkpointEvery: steps,
    onStart: (start) => {
      if (out !== undefined) say(startLine(compiled, start, steps))
    },
    onStep: ({ step, loss, tokens, seconds }) =>
      progress.update(
        step / steps,
        `step ${step}/${steps}  loss ${loss.toFixed(3)}  ${formatCount(tokens / seconds)} tokens/s`,
      ),
    shouldStop: interruption.asked,
    onEngine: interruption.onEngine,
  })
  progress.end()
  say(`${label}: ${outcome.stepsDone} steps in ${formatSeconds(outcome.seconds)}`)
  return outcome
}

function measured({ program, lastStep }: TrainingOutcome): string[] {
  if (lastStep?.trace === undefined) return []
  const width = Math.min(process.stdout.columns ?? 100, 120)
  return drawTimeline(traceFromStep(program, lastStep.trace), { width, paint: paintPhase })
}

/** Of the rank that has most, with the workspace of its tasks. */
function buffers({ ranks }: TrainingOutcome): string {
  return formatBytes(Math.max(...ranks.map(({ arenaBytes, workspaceBytes }) => arenaBytes + workspaceBytes)))
}

function actThree(program: Program): void {
  const { program: broken, what } = swapTwoSends(program)
  const { findings } = verifyProgram(broken)
  say(
    paint.bold('Act three: a program that would hang'),
    `${what} Such a launch hangs and names no rank. The verifier:`,
    '',
    ...formatFinding(broken, findings[0]!, { mark: (text) => paint.red(text) }),
    ...findings.slice(1).map(({ code, message }) => `${code}: ${message}`),
    '',
    paint.dim('again: npx meshwright tour --act 3; of a plan of yours: npx meshwright check PLAN'),
  )
}
