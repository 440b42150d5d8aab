import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { MeshwrightError } from '../base/index.ts'
import { readWholeFile } from '../data/index.ts'
import { blockCosts } from '../graph/index.ts'
import { isModelName, type Model, modelFromHuggingFaceConfig, modelFromShortName } from '../models/index.ts'
import {
  type PlanDocument,
  parsePlan,
  type ResolvedPlan,
  resolvePlan,
  setPlan,
  withScheduleText,
} from '../plan/index.ts'
import { printSchedule, scheduleChain, verifyCommunication } from '../schedule/index.ts'
import { readStandardInput } from './standardInput.ts'

/** What the flags that every plan command shares say. */
export interface PlanFlags {
  readonly model?: string
  readonly data?: string
  readonly tokenizer?: string
  readonly dtype?: string
  readonly set?: readonly string[]
}

export interface LoadedPlan {
  readonly document: PlanDocument
  /** Folder that file names in the plan are relative to. */
  readonly directory: string
  /** The plan file, or a description of where the plan came from. */
  readonly source: string
}

/** What `train` and the tour run when no plan is given: small enough for two cores, real in every part. */
export const defaultPlan = `meshwright: 1
model: gpt:layers=4,hidden=128,heads=4,context=128
mesh: { pipeline: 2, data: 2 }
schedule: 1f1b
batch: { samples: 16, microbatches: 4 }
learningRate: { kind: cosine, peak: 0.003, warmupSteps: 10 }
`

const largestPlanBytes = 2 ** 22

/** Reads a plan file (`-`: standard input; none: `otherwise`, or the default plan) and applies the flags. */
export async function loadPlan(
  file: string | undefined,
  flags: PlanFlags,
  otherwise?: LoadedPlan,
): Promise<LoadedPlan> {
  if (file === undefined && otherwise !== undefined)
    return {
      ...otherwise,
      document: await readScheduleFile(setPlan(otherwise.document, overrides(flags)), otherwise.directory),
    }
  const source = file === undefined ? 'the default plan' : file === '-' ? 'standard input' : file
  const directory = file === undefined || file === '-' ? process.cwd() : dirname(resolve(file))
  const text = file === undefined ? defaultPlan : await readPlanText(file)
  const document = parsePlan(text, { file: source })
  const own = await readScheduleFile(setPlan(document, overrides(flags)), directory)
  return { document: own, directory, source }
}

/**
 * Puts the schedule that a plan names by its file in the file's place, so that the plan stands alone: in either text form,
 * or made by a module for the plan's actors and micro-batches.
 */
async function readScheduleFile(document: PlanDocument, directory: string): Promise<PlanDocument> {
  const { schedule, mesh, batch } = document
  if (!('file' in schedule)) return document
  // Loaded when used: most plans name no file.
  const { loadScheduleSource } = await import('./scheduleSource.ts')
  const found = await loadScheduleSource(resolve(directory, schedule.file))
  // The compiler makes its own communication, but what a file says that is wrong is no schedule.
  if (found.kind === 'csv' && found.csv.communication !== undefined) {
    const { letters, communication } = found.csv
    const [finding] = verifyCommunication(communication, { letters, limit: 1 })
    if (finding !== undefined)
      throw new MeshwrightError(finding.code, [finding.message, ...(finding.grid ?? [])].join('\n'), {
        at: { file: found.source },
        hint: `meshwright schedule check ${found.source} says all that is wrong`,
      })
  }
  const own =
    found.kind === 'generator'
      ? scheduleChain(found.generator, { actors: mesh.pipeline, microbatches: batch.microbatches })
      : found.schedule
  return withScheduleText(document, printSchedule(own))
}

async function readPlanText(file: string): Promise<string> {
  const bytes =
    file === '-'
      ? await readStandardInput('plan', largestPlanBytes)
      : readWholeFile(file, 'plan', largestPlanBytes)
  return new TextDecoder().decode(bytes)
}

/** Flags are overrides of the document; their files are relative to where the command runs. */
function overrides(flags: PlanFlags): string[] {
  const list: string[] = []
  const set = (path: string, value: unknown): void => {
    list.push(`${path}=${JSON.stringify(value)}`)
  }
  if (flags.model !== undefined)
    set('model', isConfigFile(flags.model) ? { config: resolve(flags.model) } : flags.model)
  if (flags.data !== undefined) set('data.file', resolve(flags.data))
  if (flags.tokenizer !== undefined) set('data.tokenizer', resolve(flags.tokenizer))
  if (flags.dtype !== undefined) set('dtype', flags.dtype)
  return [...list, ...(flags.set ?? [])]
}

/** A mistyped name stays a name, so that the message can say which was meant. */
function isConfigFile(model: string): boolean {
  return !isModelName(model) && (/[/\\]|\.json$/.test(model) || existsSync(model))
}

const largestConfigBytes = 2 ** 22

/** The model that the plan names. Throws when it names none. */
export function loadModel({ document, directory, source }: LoadedPlan): Model {
  const { model } = document
  if (model === null)
    throw new MeshwrightError('PLAN_NO_MODEL', `${source} names no model`, {
      at: { file: source, path: 'model' },
      hint: 'add model: gpt:layers=4,hidden=128, or give --model',
    })
  if ('name' in model) return modelFromShortName(model.name)
  const path = resolve(directory, model.config)
  const text = new TextDecoder().decode(readWholeFile(path, 'model config', largestConfigBytes))
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    throw new MeshwrightError('MODEL_CONFIG', `${path} is not JSON: ${(cause as Error).message}`, {
      at: { file: path },
      hint: 'give the config.json of a Hugging Face model',
      cause,
    })
  }
  return modelFromHuggingFaceConfig(json, { source: path })
}

/** The plan for the model: stages cut by modelled cost where the plan does not say. */
export function resolveFor(document: PlanDocument, model: Model): ResolvedPlan {
  const sequence = Math.min(document.sequence ?? model.context, model.context)
  const { blocks } = blockCosts(model.build({ batch: 1, sequence, dtype: document.dtype }))
  return resolvePlan(document, model, { blockCosts: blocks })
}
