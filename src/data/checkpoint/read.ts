import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { MeshwrightError } from '../../base/index.ts'
import { readFailure } from '../fileErrors.ts'
import { readWholeFile } from '../files.ts'
import { openSafetensors, type SafetensorsSource } from '../safetensors/source.ts'
import {
  type CheckpointDescription,
  descriptionFile,
  largestDescriptionBytes,
  parseDescription,
  stateFile,
} from './description.ts'
import { latestFile, listCheckpoints, stepOf } from './folders.ts'

export interface Checkpoint {
  /** The step folder that was read. */
  readonly path: string
  readonly description: CheckpointDescription
  /** Tensors by name; read with `readFloats`. */
  readonly state: SafetensorsSource
  /** Newer checkpoints that could not be used, and why: worth telling a person. */
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
}

/**
 * Reads a checkpoint: `path` is a step folder, or a folder of them, of which the one that `latest` names is taken, or
 * where that is not whole the newest whole one before it. Unfinished folders are ignored.
 *
 * @throws MeshwrightError `CHECKPOINT_MISSING` when there is none; for a step folder what is wrong with it
 * (`CHECKPOINT_*`, `SAFETENSORS_*`, `DATA_*`)
 */
export function readCheckpoint(path: string): Checkpoint {
  if (existsSync(join(path, descriptionFile))) return { ...readStepFolder(path), skipped: [] }
  const skipped: { path: string; reason: string }[] = []
  for (const name of candidates(path)) {
    const folder = join(path, name)
    try {
      return { ...readStepFolder(folder), skipped }
    } catch (cause) {
      if (!(cause instanceof MeshwrightError)) throw cause
      skipped.push({ path: folder, reason: cause.message })
    }
  }
  const reasons = skipped.map(({ path: folder, reason }) => `${folder}: ${reason}`)
  throw new MeshwrightError(
    'CHECKPOINT_MISSING',
    reasons.length === 0
      ? `there is no checkpoint in ${path}`
      : `none of the ${reasons.length} checkpoints in ${path} is whole (${reasons.join('; ')})`,
    { at: { file: path }, hint: 'give the output folder of a run, or one of its step folders' },
  )
}

function candidates(path: string): readonly string[] {
  let pointer: string
  try {
    if (!readdirSync(path).includes(latestFile)) return listCheckpoints(path)
    const bytes = readWholeFile(join(path, latestFile), 'pointer to the latest checkpoint', 4096)
    pointer = new TextDecoder().decode(bytes).trim()
  } catch (cause) {
    throw readFailure(path, 'checkpoint', cause)
  }
  // A pointer that names no step folder is as good as none: it must not lead out of the folder.
  return listCheckpoints(path, stepOf(pointer))
}

function readStepFolder(path: string): Omit<Checkpoint, 'skipped'> {
  const file = join(path, descriptionFile)
  const text = new TextDecoder().decode(
    readWholeFile(file, 'checkpoint description', largestDescriptionBytes),
  )
  const { description, state: expected } = parseDescription(text, file)
  const state = openSafetensors(join(path, stateFile))
  const found = state.tensors.values().next().value?.fileBytes ?? expected.bytes
  if (state.tensors.size !== expected.tensors || found !== expected.bytes) {
    throw new MeshwrightError(
      'CHECKPOINT_INVALID',
      `the state file holds ${state.tensors.size} tensors in ${found} bytes, ` +
        `the description says ${expected.tensors} in ${expected.bytes}`,
      { at: { file: path }, hint: 'resume from another checkpoint of the run' },
    )
  }
  return { path, description, state }
}
