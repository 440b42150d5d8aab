import { exitCodes, MeshwrightError } from '../base/index.ts'
import type { Engine, StepEvent } from '../engine/index.ts'
import { formatCount } from './format.ts'
import { catchInterrupts } from './interrupt.ts'
import { compile } from './prepare.ts'
import { Progress } from './progress.ts'
import { loadPlan } from './setup.ts'
import { paint } from './style.ts'
import type { TrainFlags } from './train.ts'
import { openResume, runTraining, type TrainingOutcome, type TrainingStart } from './training.ts'
import { outcomeLines, startLine } from './trainingReport.ts'

const defaultSteps = 100

export async function trainWithFlags(file: string | undefined, flags: TrainFlags): Promise<void> {
  const resumed = flags.resume === undefined ? undefined : openResume(flags.resume)
  const loaded = loadPlan(file, flags, resumed?.loaded)
  const compiled = compile(loaded)
  const steps = flags.steps ?? resumed?.settings.steps ?? defaultSteps
  const firstStep = resumed?.checkpoint.description.step ?? 0
  if (steps <= firstStep)
    throw new MeshwrightError('TRAIN_NO_STEPS', `the checkpoint has done ${firstStep} of ${steps} steps`, {
      hint: `give --steps above ${firstStep}`,
    })
  const out = flags.out ?? flags.resume
  const say = (text: string): void => {
    process.stderr.write(`${text}\n`)
  }
  for (const { path, reason } of resumed?.checkpoint.skipped ?? []) say(`not used: ${path} (${reason})`)
  for (const notice of compiled.model.notices) say(`${paint.yellow('note')} ${notice}`)

  const progress = new Progress('train')
  let engine: Engine | undefined
  let aborted = false
  const interrupts = catchInterrupts(
    () => {
      progress.clear()
      say('stopping after this step, then a checkpoint; once more to stop without')
    },
    () => {
      aborted = true
      void engine?.stop()
    },
  )
  const emit = flags.json === true ? emitJson : undefined
  try {
    const outcome = await runTraining({
      loaded,
      compiled,
      steps,
      ...(out === undefined ? {} : { out }),
      ...(resumed === undefined ? {} : { resume: resumed.checkpoint }),
      validateEvery: flags.validateEvery ?? resumed?.settings.validateEvery ?? 0,
      checkpointEvery: flags.checkpointEvery,
      onEngine: (made) => {
        engine = made
      },
      onStart: (start) => {
        warnOfOtherText(resumed?.settings.textBytes, start, say)
        if (emit === undefined) say(startLine(compiled, start, steps))
        emit?.('start', startDocument(start, steps))
      },
      onStep: (event) => {
        emit?.('step', stepDocument(event))
        progress.update((event.step - firstStep) / (steps - firstStep), progressText(event))
        if (event.validationLoss !== undefined && emit === undefined) {
          progress.end()
          say(`step ${event.step}: validation loss ${event.validationLoss.toFixed(4)}`)
        }
      },
      onCheckpoint: (path) => emit?.('checkpoint', { path }),
      shouldStop: interrupts.asked,
    })
    progress.end()
    if (emit === undefined) process.stdout.write(`${outcomeLines(compiled, outcome).join('\n')}\n`)
    emit?.('end', outcomeDocument(outcome))
    if (interrupts.asked()) process.exitCode = exitCodes.interrupted
  } catch (error) {
    progress.end()
    if (!aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    interrupts.release()
  }
}

function warnOfOtherText(bytes: number | undefined, start: TrainingStart, say: (text: string) => void): void {
  if (bytes === undefined || bytes === start.data.text.bytes) return
  say(
    `${paint.yellow('note')} the text has ${start.data.text.bytes} bytes, the resumed run's had ${bytes}: the data order differs`,
  )
}

function progressText(event: StepEvent): string {
  const rate = formatCount(event.tokens / event.seconds)
  return `step ${event.step}/${event.steps}  loss ${event.loss.toFixed(4)}  ${rate} tokens/s`
}

function emitJson(event: string, document: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify({ schemaVersion: 1, event, ...document })}\n`)
}

function startDocument(start: TrainingStart, steps: number): Record<string, unknown> {
  return {
    firstStep: start.firstStep,
    steps,
    text: start.data.description,
    tokens: start.data.text.tokens.length,
    unigramEntropy: start.unigramEntropy,
  }
}

function stepDocument({ result: _, ranks, ...event }: StepEvent): Record<string, unknown> {
  return { ...event, ranks }
}

function outcomeDocument(outcome: TrainingOutcome): Record<string, unknown> {
  const { stepsDone, lastLoss, seconds, tokens, ranks, files, unigramEntropy } = outcome
  return {
    stepsDone,
    loss: lastLoss,
    unigramEntropy,
    seconds,
    tokensPerSecond: tokens / seconds,
    ranks,
    files,
  }
}
