import { dirname } from 'node:path'
import { exitCodes, MeshwrightError } from '../base/index.ts'
import type { Engine, StepEvent } from '../engine/index.ts'
import { errorDocument } from './errors.ts'
import { formatCount } from './format.ts'
import { catchInterrupts } from './interrupt.ts'
import { type Compiled, compile } from './prepare.ts'
import { Progress } from './progress.ts'
import { loadPlan } from './setup.ts'
import { paint } from './style.ts'
import type { TrainFlags } from './train.ts'
import { openResume, runTraining, type TrainingOutcome, type TrainingStart } from './training.ts'
import { outcomeLines, peakResidentBytes, startLine } from './trainingReport.ts'

const defaultSteps = 100

export async function trainWithFlags(file: string | undefined, flags: TrainFlags): Promise<void> {
  try {
    await trainUnder(file, flags)
  } catch (error) {
    if (flags.json === true && error instanceof MeshwrightError)
      emitJson('error', { error: errorDocument(error) })
    throw error
  }
}

async function trainUnder(file: string | undefined, flags: TrainFlags): Promise<void> {
  const resumed = flags.resume === undefined ? undefined : openResume(flags.resume)
  const loaded = await loadPlan(file, flags, resumed?.loaded)
  const compiled = compile(loaded)
  const steps = flags.steps ?? resumed?.settings.steps ?? defaultSteps
  const firstStep = resumed?.checkpoint.description.step ?? 0
  if (steps <= firstStep)
    throw new MeshwrightError('TRAIN_NO_STEPS', `the checkpoint has done ${firstStep} of ${steps} steps`, {
      hint: `give --steps above ${firstStep}`,
    })
  // A resume may name one checkpoint: the run is the folder around it.
  const out = flags.out ?? (resumed === undefined ? undefined : dirname(resumed.checkpoint.path))
  const validateEvery = flags.validateEvery ?? resumed?.settings.validateEvery ?? 0
  const validationBatches = flags.validationBatches ?? resumed?.settings.validationBatches
  const say = (text: string): void => {
    process.stderr.write(`${text}\n`)
  }
  for (const { path, reason } of resumed?.checkpoint.skipped ?? []) say(`not used: ${path} (${reason})`)
  for (const notice of compiled.model.notices) say(`${paint.yellow('note')} ${notice}`)

  const progress = new Progress('train')
  const engines: Engine[] = []
  let aborted = false
  const interrupts = catchInterrupts(
    () => {
      progress.clear()
      say('stopping after this step, then a checkpoint; once more to stop without')
    },
    () => {
      aborted = true
      for (const engine of engines) void engine.stop()
    },
  )
  let status = ''
  let fraction = 0
  const emit = flags.json === true ? emitJson : undefined
  try {
    const outcome = await runTraining({
      loaded,
      compiled,
      steps,
      ...(out === undefined ? {} : { out }),
      ...(resumed === undefined ? {} : { resume: resumed.checkpoint }),
      validateEvery,
      ...(validationBatches === undefined ? {} : { validationBatches }),
      checkpointEvery: flags.checkpointEvery,
      onEngine: (made) => {
        engines.push(made)
        if (aborted) void made.stop()
      },
      onWarning: (warning) => say(`${paint.yellow('note')} ${warning}`),
      onStart: (start) => {
        if (resumed !== undefined) warnOfOtherData(resumed, compiled, validateEvery, start, say)
        if (emit === undefined) say(startLine(compiled, start, steps))
        emit?.('start', startDocument(start, steps))
      },
      onStep: (event) => {
        emit?.('step', stepDocument(event))
        fraction = (event.step - firstStep) / (steps - firstStep)
        status = progressText(event)
        progress.update(fraction, status)
        if (event.validationLoss !== undefined && emit === undefined) {
          progress.end()
          say(`step ${event.step}: validation loss ${event.validationLoss.toFixed(4)}`)
        }
      },
      onValidation: (done, batches) =>
        progress.update(fraction, `${status}  validation ${done}/${batches}`.trimStart()),
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

/** What the order of the data follows from, where the resumed run had it otherwise. */
function warnOfOtherData(
  { loaded, settings }: ReturnType<typeof openResume>,
  { document }: Compiled,
  validateEvery: number,
  start: TrainingStart,
  say: (text: string) => void,
): void {
  const before = loaded.document
  const heldOut = (every: number): string => (every > 0 ? 'held-out text' : 'no held-out text')
  const facts: readonly (readonly [string, number | string | null, number | string | null | undefined])[] = [
    ['bytes of text', start.data.text.bytes, settings.textBytes],
    ['seed', document.seed, before.seed],
    ['samples a step', document.batch.samples, before.batch.samples],
    ['tokens a sample', document.sequence, before.sequence],
    ['validation', heldOut(validateEvery), heldOut(settings.validateEvery)],
  ]
  const changed = facts.filter(([, now, then]) => then !== undefined && now !== then)
  if (changed.length === 0) return
  const list = changed.map(([what, now, then]) => `${what}: ${now ?? 'all'}, was ${then ?? 'all'}`)
  say(`${paint.yellow('note')} the data order differs from the resumed run's (${list.join('; ')})`)
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
    peakResidentBytes: peakResidentBytes(),
    files,
  }
}
