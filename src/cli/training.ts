import { dirname, resolve } from 'node:path'
import { type Checkpoint, type JsonValue, readCheckpoint, unigramEntropy } from '../data/index.ts'
import {
  createLocalEngine,
  type Engine,
  initialState,
  memoryWarning,
  type RankCounters,
  type StateTensors,
  type StepEvent,
  type StepResult,
  stateFromCheckpoint,
  stateFromWeights,
  train,
} from '../engine/index.ts'
import { parsePlan, printPlan, setPlan } from '../plan/index.ts'
import type { Program } from '../program/index.ts'
import { type Compiled, learningRateOf, lowerVerified, type PreparedData, prepareData } from './prepare.ts'
import { RunFolder } from './runFolder.ts'
import type { LoadedPlan } from './setup.ts'
import { packageVersion } from './version.ts'

export interface TrainingRequest {
  readonly loaded: LoadedPlan
  readonly compiled: Compiled
  readonly steps: number
  readonly out?: string
  readonly resume?: Checkpoint
  readonly validateEvery: number
  /** Most batches of a validation; left out: the engine's default. */
  readonly validationBatches?: number
  readonly checkpointEvery: number
  /** Told, before anything is made, that this may take more memory than there is. */
  readonly onWarning?: (warning: string) => void
  readonly onStart?: (start: TrainingStart) => void
  readonly onStep?: (event: StepEvent) => void
  /** Told before each batch of a validation how many are done, and how many there are. */
  readonly onValidation?: (done: number, batches: number) => void
  readonly onCheckpoint?: (path: string) => void
  readonly shouldStop?: () => boolean
  /** Given each engine, to end it early: the one that trains, and where there is a validation the one for it. */
  readonly onEngine?: (engine: Engine) => void
}

export interface TrainingStart {
  readonly program: Program
  readonly data: PreparedData
  /** Of the text, in nats: what a model that only counts tokens would reach. */
  readonly unigramEntropy: number
  readonly firstStep: number
}

export interface TrainingOutcome extends TrainingStart {
  readonly stepsDone: number
  readonly lastLoss: number | undefined
  readonly seconds: number
  readonly tokens: number
  /** Sums over all steps. */
  readonly ranks: readonly RankTotals[]
  readonly state: StateTensors
  readonly losses: readonly number[]
  /** The last step that ran. */
  readonly lastStep: StepResult | undefined
  readonly files: readonly string[]
}

export interface RankTotals {
  readonly rank: number
  readonly arenaBytes: number
  readonly workspaceBytes: number
  readonly compute: number
  readonly transfer: number
  readonly wait: number
}

/** Share of the text that is held out when there is a validation. */
const validationFraction = 0.05

/** Trains under a plan that is compiled already, with everything that surrounds it: data, state, files. */
export async function runTraining(request: TrainingRequest): Promise<TrainingOutcome> {
  const { compiled, loaded, steps, resume } = request
  const { document, model, optimizer, plan } = compiled
  const program = lowerVerified(compiled)
  const warning = memoryWarning([program])
  if (warning !== undefined) request.onWarning?.(warning)
  const data = await prepareData(compiled, loaded.directory, {
    validationFraction: request.validateEvery > 0 ? validationFraction : 0,
  })
  const firstStep = resume?.description.step ?? 0
  const options = { model, optimizer, dtype: plan.dtype }
  const weights = document.model?.weights ?? null
  const start: TrainingStart = {
    program,
    data,
    unigramEntropy: unigramEntropy(data.text.tokens),
    firstStep,
  }
  // Before the state is made: what finds no room is refused at no cost.
  const engine = await createLocalEngine(program, { trace: request.out !== undefined })
  let evaluator: Engine | undefined
  let folder: RunFolder | undefined
  try {
    request.onEngine?.(engine)
    const state =
      resume !== undefined
        ? stateFromCheckpoint(options, resume.state)
        : weights !== null
          ? stateFromWeights(options, resolve(loaded.directory, weights))
          : initialState({ ...options, seed: document.seed })
    if (request.out !== undefined)
      folder = new RunFolder(request.out, printPlan(document), goesOn(request) ? firstStep : undefined)
    await engine.writeState(state)
    request.onStart?.(start)
    const totals = new Totals(plan.ranks.length)
    const losses: number[] = []
    let last: StepEvent | undefined
    let saved = -1
    const save = async (step: number): Promise<void> => {
      if (folder === undefined || saved === step) return
      const path = await folder.checkpoint(describe(request, data, step), model, await engine.readState())
      saved = step
      request.onCheckpoint?.(path)
    }
    const started = performance.now()
    const stepsDone = await train({
      engine,
      evaluator: async () => {
        if (evaluator === undefined) {
          evaluator = await createLocalEngine(lowerVerified(compiled, { method: 'infer' }))
          request.onEngine?.(evaluator)
        }
        return evaluator
      },
      dataset: data.dataset,
      optimizer,
      learningRate: learningRateOf(document, steps),
      startStep: firstStep,
      steps,
      validateEvery: request.validateEvery,
      ...(request.validationBatches === undefined ? {} : { validationBatches: request.validationBatches }),
      ...(request.onValidation === undefined ? {} : { onValidation: request.onValidation }),
      onStep: async (event) => {
        last = event
        losses.push(event.loss)
        totals.add(event.ranks)
        folder?.note(event)
        request.onStep?.(event)
        if (event.step % request.checkpointEvery === 0) await save(event.step)
      },
      ...(request.shouldStop === undefined ? {} : { shouldStop: request.shouldStop }),
    })
    const seconds = (performance.now() - started) / 1000
    await save(stepsDone)
    if (last !== undefined) folder?.trace(program, last.result)
    return {
      ...start,
      stepsDone,
      lastLoss: last?.loss,
      seconds,
      tokens: losses.length * plan.samples * plan.sequence,
      ranks: totals.with(await engine.memory()),
      state: await engine.readState(),
      losses,
      lastStep: last?.result,
      files: folder?.written() ?? [],
    }
  } finally {
    folder?.close()
    await Promise.all([engine.stop(), evaluator?.stop()])
  }
}

/** Whether the run goes on in the folder it was resumed from: any other must not hold checkpoints. */
function goesOn({ out, resume }: TrainingRequest): boolean {
  return out !== undefined && resume !== undefined && resolve(out) === resolve(dirname(resume.path))
}

function describe(
  request: TrainingRequest,
  data: PreparedData,
  step: number,
): Parameters<RunFolder['checkpoint']>[0] {
  const { compiled, loaded } = request
  return {
    libraryVersion: packageVersion(),
    step,
    seed: compiled.document.seed,
    dtype: compiled.plan.dtype,
    dataPosition: data.dataset.positionAt(step),
    // File names in the plan are relative to its folder, which a resume may not know.
    plan: { text: printPlan(withAbsoluteFiles(loaded, compiled)), file: loaded.source },
    model: { ...compiled.model.config } as unknown as JsonValue,
    settings: {
      steps: request.steps,
      validateEvery: request.validateEvery,
      ...(request.validationBatches === undefined ? {} : { validationBatches: request.validationBatches }),
      text: { bytes: data.text.bytes, description: data.description },
    },
  }
}

function withAbsoluteFiles({ directory }: LoadedPlan, { document }: Compiled): Compiled['document'] {
  const absolute: string[] = []
  const { file, tokenizer } = document.data
  if (file !== null) absolute.push(`data.file=${JSON.stringify(resolve(directory, file))}`)
  if (tokenizer !== null) absolute.push(`data.tokenizer=${JSON.stringify(resolve(directory, tokenizer))}`)
  const { model } = document
  if (model !== null && 'config' in model)
    absolute.push(`model.config=${JSON.stringify(resolve(directory, model.config))}`)
  if (model !== null && model.weights !== null)
    absolute.push(`model.weights=${JSON.stringify(resolve(directory, model.weights))}`)
  return setPlan(document, absolute)
}

/** What a checkpoint says about how its run went on. */
export interface ResumeSettings {
  readonly steps: number | undefined
  readonly validateEvery: number
  readonly validationBatches: number | undefined
  readonly textBytes: number | undefined
}

/** Opens the checkpoint to resume from, with the plan it was written under. */
export function openResume(path: string): {
  checkpoint: Checkpoint
  loaded: LoadedPlan
  settings: ResumeSettings
} {
  const checkpoint = readCheckpoint(path)
  const { plan, settings } = checkpoint.description
  const source = `${checkpoint.path}/checkpoint.json`
  const document = parsePlan(plan.text, { file: source })
  const given = (settings ?? {}) as {
    steps?: unknown
    validateEvery?: unknown
    validationBatches?: unknown
    text?: { bytes?: unknown }
  }
  const number = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)
  return {
    checkpoint,
    loaded: { document, directory: dirname(checkpoint.path), source },
    settings: {
      steps: number(given.steps),
      validateEvery: number(given.validateEvery) ?? 0,
      validationBatches: number(given.validationBatches),
      textBytes: number(given.text?.bytes),
    },
  }
}

class Totals {
  private readonly sums: { compute: number; transfer: number; wait: number }[]

  constructor(ranks: number) {
    this.sums = Array.from({ length: ranks }, () => ({ compute: 0, transfer: 0, wait: 0 }))
  }

  add(ranks: readonly RankCounters[]): void {
    for (const { rank, seconds } of ranks) {
      const sum = this.sums[rank]!
      sum.compute += seconds.compute
      sum.transfer += seconds.transfer
      sum.wait += seconds.wait
    }
  }

  with(memory: Awaited<ReturnType<Engine['memory']>>): RankTotals[] {
    return memory.map(({ rank, arenaBytes, workspaceBytes }) => ({
      rank,
      arenaBytes,
      workspaceBytes,
      ...this.sums[rank]!,
    }))
  }
}
