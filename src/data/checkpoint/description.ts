import { MeshwrightError } from '../../base/index.ts'
import type { FloatDType } from '../../graph/index.ts'

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue }

/** What a checkpoint says beside its tensors: enough to go on as if the run had never stopped. */
export interface CheckpointDescription {
  readonly libraryVersion: string
  /** Optimizer steps done; the next step to run has this index. */
  readonly step: number
  readonly seed: number
  /** Dtype the run works in; its tensors are stored in it too. */
  readonly dtype: FloatDType
  /** Where in the data the next step starts. Follows from step, seed and batch; kept for people and for checks. */
  readonly dataPosition: { readonly epoch: number; readonly sample: number }
  /** The plan document as the person gave it. */
  readonly plan: { readonly text: string; readonly file?: string }
  /** The model, in the form that its room reads back. */
  readonly model: JsonValue
  /** State of random number generators that do not follow from seed and step. */
  readonly random?: JsonValue
  /** Everything else the run decided that the plan does not say (data file, tokenizer, flags). */
  readonly settings?: JsonValue
}

/** The state file that belongs to a description. */
export interface StateFile {
  readonly file: string
  readonly bytes: number
  readonly tensors: number
}

export const descriptionFile = 'checkpoint.json'
export const stateFile = 'state.safetensors'
export const largestDescriptionBytes: number = 2 ** 26

const formatVersion = 1

export function printDescription(description: CheckpointDescription, state: StateFile): string {
  return `${JSON.stringify({ formatVersion, ...description, state }, null, 2)}\n`
}

/**
 * Reads `checkpoint.json` back.
 *
 * @throws MeshwrightError `CHECKPOINT_INVALID` naming the field, `CHECKPOINT_VERSION` for a format of another version
 */
export function parseDescription(
  text: string,
  file: string,
): { readonly description: CheckpointDescription; readonly state: StateFile } {
  const invalid = (message: string): MeshwrightError =>
    new MeshwrightError('CHECKPOINT_INVALID', message, {
      at: { file },
      hint: 'resume from another checkpoint of the run',
    })
  let root: unknown
  try {
    root = JSON.parse(text)
  } catch (cause) {
    throw invalid(`the description is not JSON: ${(cause as Error).message}`)
  }
  const fields = record(root, 'the description')
  const version = fields['formatVersion']
  if (version !== formatVersion) {
    throw new MeshwrightError(
      'CHECKPOINT_VERSION',
      `the checkpoint has format version ${JSON.stringify(version) ?? 'nothing'}, this library reads ${formatVersion}`,
      { at: { file }, hint: 'read it with the library version that wrote it' },
    )
  }
  const position = record(fields['dataPosition'], 'dataPosition')
  const plan = record(fields['plan'], 'plan')
  const state = record(fields['state'], 'state')
  const dtype = fields['dtype']
  if (dtype !== 'f32' && dtype !== 'f64')
    throw invalid(`dtype is ${JSON.stringify(dtype)}, not "f32" or "f64"`)
  if (!('model' in fields)) throw invalid('model is missing')
  return {
    description: {
      libraryVersion: string(fields['libraryVersion'], 'libraryVersion'),
      step: count(fields['step'], 'step'),
      seed: count(fields['seed'], 'seed'),
      dtype,
      dataPosition: {
        epoch: count(position['epoch'], 'dataPosition.epoch'),
        sample: count(position['sample'], 'dataPosition.sample'),
      },
      plan: {
        text: string(plan['text'], 'plan.text'),
        ...(plan['file'] === undefined ? {} : { file: string(plan['file'], 'plan.file') }),
      },
      model: fields['model'] as JsonValue,
      ...('random' in fields ? { random: fields['random'] as JsonValue } : {}),
      ...('settings' in fields ? { settings: fields['settings'] as JsonValue } : {}),
    },
    state: {
      file: stateFile,
      bytes: count(state['bytes'], 'state.bytes'),
      tensors: count(state['tensors'], 'state.tensors'),
    },
  }

  function record(value: unknown, path: string): Record<string, unknown> {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
    throw invalid(`${path} is no object`)
  }

  function string(value: unknown, path: string): string {
    if (typeof value === 'string') return value
    throw invalid(`${path} is no string`)
  }

  function count(value: unknown, path: string): number {
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
    throw invalid(`${path} is ${JSON.stringify(value)}, no whole number >= 0`)
  }
}
