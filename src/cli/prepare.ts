import { resolve } from 'node:path'
import { MeshwrightError } from '../base/index.ts'
import {
  createDataset,
  type Dataset,
  findDefaultText,
  loadTokenizer,
  readText,
  type TokenizedText,
  tokenizeText,
} from '../data/index.ts'
import type { Model } from '../models/index.ts'
import { type LearningRateSpec, makeOptimizer, type Optimizer } from '../optimizers/index.ts'
import { type PlanDocument, type ResolvedPlan, resolveLearningRate } from '../plan/index.ts'
import { type LowerOptions, lowerPlan, type Program, verifyProgram } from '../program/index.ts'
import { type LoadedPlan, loadModel, resolveFor } from './setup.ts'

/** A plan made ready: everything that does not need data or an engine. */
export interface Compiled {
  readonly document: PlanDocument
  readonly model: Model
  readonly plan: ResolvedPlan
  readonly optimizer: Optimizer
}

export function compile(loaded: LoadedPlan): Compiled {
  const model = loadModel(loaded)
  const { document } = loaded
  return {
    document,
    model,
    plan: resolveFor(document, model),
    optimizer: makeOptimizer(document.optimizer.name, document.optimizer.settings),
  }
}

/**
 * Lowers and verifies. A finding in a program of our own making ends the command: nothing unproven is run. Without
 * `withinBudget` (default true) the plan's memory budget is not asked about.
 */
export function lowerVerified(
  { plan, model }: Compiled,
  { withinBudget = true, ...options }: LowerOptions & { readonly withinBudget?: boolean } = {},
): Program {
  const program = lowerPlan(plan, model, options)
  const budget = withinBudget ? plan.deviceBytes : null
  const { findings } = verifyProgram(program, budget === null ? {} : { budgetBytes: budget })
  const first = findings[0]
  if (first === undefined) return program
  throw new MeshwrightError(first.code, first.message, { hint: first.fix })
}

/** The plan's learning rate. A run shorter than the warm-up goes up as far as it gets. */
export function learningRateOf(document: PlanDocument, steps: number): LearningRateSpec {
  const warmup = document.learningRate.settings['warmupSteps']
  return resolveLearningRate(document, Math.max(steps, typeof warmup === 'number' ? warmup + 1 : 1))
}

export interface PreparedData {
  readonly text: TokenizedText
  /** What the text is, for a person. */
  readonly description: string
  readonly dataset: Dataset
}

/** Reads and tokenizes the plan's text, or the default text. */
export async function prepareData(
  { document, plan, model }: Compiled,
  directory: string,
  options: { readonly validationFraction: number },
): Promise<PreparedData> {
  const { file, tokenizer: tokenizerFile } = document.data
  const tokenizer =
    tokenizerFile === null ? undefined : await loadTokenizer(resolve(directory, tokenizerFile))
  const textOptions = tokenizer === undefined ? {} : { tokenizer }
  let text: TokenizedText
  let description: string
  if (file === null) {
    const found = findDefaultText()
    text = await tokenizeText(found.bytes, found.description, textOptions)
    description = found.description
  } else {
    text = await readText(resolve(directory, file), textOptions)
    description = file
  }
  const dataset = createDataset(text, {
    sequence: plan.sequence,
    batch: document.batch.samples,
    seed: document.seed,
    validationFraction: options.validationFraction,
    vocabularySize: model.vocabulary,
  })
  return { text, description, dataset }
}
