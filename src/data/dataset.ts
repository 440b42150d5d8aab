import { internalError, MeshwrightError } from '../base/index.ts'
import { permutation } from '../graph/index.ts'
import { checkVocabulary, type TokenizedText } from './tokens/text.ts'

export interface DatasetOptions {
  /** Tokens of one sample that the model reads (S). */
  readonly sequence: number
  /** Samples of the global batch (B). */
  readonly batch: number
  readonly seed: number
  /** The last part of the samples is kept for validation, at least one where this is above 0; default 0. */
  readonly validationFraction?: number
  /** The model's; tokens beyond it are refused. */
  readonly vocabularySize?: number
}

/** B samples of S positions, row-major [B, S]. A label of -1 is not counted in the loss. */
export interface Batch {
  readonly tokens: Int32Array
  readonly labels: Int32Array
  /** Number of labels >= 0: what the summed loss is divided by. */
  readonly targets: number
}

/** Arrays of B * S elements to write a batch into; they may lie in SharedArrayBuffers. */
export interface BatchArrays {
  readonly tokens: Int32Array
  readonly labels: Int32Array
}

export interface DataPosition {
  readonly epoch: number
  /** Samples of the epoch that are done. */
  readonly sample: number
}

export interface Dataset {
  readonly sequence: number
  readonly batch: number
  readonly trainingSamples: number
  readonly validationSamples: number
  /** Batches that cover every validation sample once. */
  readonly validationBatches: number
  /** Where step `step` (from 0) starts. */
  positionAt(step: number): DataPosition
  /** The training batch of step `step`: the same for the same text, seed and options, whatever was read before. */
  batchAt(step: number, into?: BatchArrays): Batch
  /** Validation batch `index`, in the order of the text; the last one is filled up with labels of -1. */
  validationBatchAt(index: number, into?: BatchArrays): Batch
}

/**
 * Samples of a text: sample i reads tokens i*S up to (i+1)*S - 1 and is to predict the token after each, so inputs do
 * not overlap, and what is left at the end of the text is not used. Each epoch goes through all training samples once,
 * in an order of its own that depends on seed and epoch only; a batch may reach over the end of an epoch.
 *
 * @throws MeshwrightError `DATA_TOO_SHORT`, `DATA_TOKEN_OUT_OF_VOCABULARY`, `DATA_OPTION`
 */
export function createDataset(text: TokenizedText, options: DatasetOptions): Dataset {
  const { sequence, batch, seed } = options
  const fraction = options.validationFraction ?? 0
  checkOption('sequence', sequence, sequence >= 1 && Number.isInteger(sequence), 'a whole number >= 1')
  checkOption('batch', batch, batch >= 1 && Number.isInteger(batch), 'a whole number >= 1')
  checkOption('seed', seed, seed >= 0 && Number.isSafeInteger(seed), 'a whole number from 0 up to 2^53 - 1')
  checkOption('validation fraction', fraction, fraction >= 0 && fraction < 1, 'at least 0 and below 1')
  const { tokens } = text
  const samples = Math.floor((tokens.length - 1) / sequence)
  const needed = fraction > 0 ? 2 : 1
  if (samples < needed) throw tooShort(text, sequence, needed)
  if (options.vocabularySize !== undefined) checkVocabulary(text, options.vocabularySize)

  const validationSamples =
    fraction > 0 ? Math.min(samples - 1, Math.max(1, Math.floor(samples * fraction))) : 0
  const trainingSamples = samples - validationSamples
  // Orders of the epochs that the latest batch touched.
  const orders = new Map<number, (index: number) => number>()

  function orderOf(epoch: number): (index: number) => number {
    let order = orders.get(epoch)
    if (order === undefined) {
      if (orders.size >= 4) orders.clear()
      order = permutation({ seed, epoch, size: trainingSamples })
      orders.set(epoch, order)
    }
    return order
  }

  function writeSample(sample: number, row: number, into: BatchArrays): void {
    const start = sample * sequence
    into.tokens.set(tokens.subarray(start, start + sequence), row * sequence)
    into.labels.set(tokens.subarray(start + 1, start + sequence + 1), row * sequence)
  }

  function arrays(into: BatchArrays | undefined): BatchArrays {
    const length = batch * sequence
    if (into === undefined) return { tokens: new Int32Array(length), labels: new Int32Array(length) }
    if (into.tokens.length !== length || into.labels.length !== length) {
      throw internalError(`a batch of ${length} tokens into ${into.tokens.length} and ${into.labels.length}`)
    }
    return into
  }

  function positionAt(step: number): DataPosition {
    const done = step * batch
    if (!Number.isSafeInteger(done) || step < 0) throw internalError(`data of step ${step}`)
    return { epoch: Math.floor(done / trainingSamples), sample: done % trainingSamples }
  }

  const validationBatches = Math.ceil(validationSamples / batch)

  return {
    sequence,
    batch,
    trainingSamples,
    validationSamples,
    validationBatches,
    positionAt,
    batchAt(step, into) {
      const target = arrays(into)
      let { epoch, sample } = positionAt(step)
      for (let row = 0; row < batch; row++) {
        writeSample(orderOf(epoch)(sample), row, target)
        sample++
        if (sample === trainingSamples) {
          epoch++
          sample = 0
        }
      }
      return { ...target, targets: batch * sequence }
    },
    validationBatchAt(index, into) {
      if (!Number.isInteger(index) || index < 0 || index >= validationBatches) {
        throw internalError(`validation batch ${index} of ${validationBatches}`)
      }
      const target = arrays(into)
      const first = index * batch
      const rows = Math.min(batch, validationSamples - first)
      for (let row = 0; row < rows; row++) writeSample(trainingSamples + first + row, row, target)
      target.tokens.fill(0, rows * sequence)
      target.labels.fill(-1, rows * sequence)
      return { ...target, targets: rows * sequence }
    },
  }
}

function checkOption(name: string, value: number, holds: boolean, meaning: string): void {
  if (holds) return
  throw new MeshwrightError('DATA_OPTION', `the ${name} is ${value}`, { hint: `the ${name} is ${meaning}` })
}

function tooShort(text: TokenizedText, sequence: number, samples: number): MeshwrightError {
  const needed = samples * sequence + 1
  const purpose =
    samples === 1
      ? `one sample of ${sequence} tokens and the token after it`
      : `one training and one validation sample of ${sequence} tokens each and the token after them`
  return new MeshwrightError(
    'DATA_TOO_SHORT',
    `${text.source} has ${text.tokens.length} tokens; ${purpose} take ${needed}`,
    { at: { file: text.source }, hint: 'give a longer text, or a shorter sequence' },
  )
}
