import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { internalError } from '../../base/index.ts'
import { syncFolder, writeFileAtomic } from '../atomicFile.ts'
import { writeFailure } from '../fileErrors.ts'
import { makeFolder } from '../makeFolder.ts'
import { type TensorToWrite, writeSafetensors } from '../safetensors/write.ts'
import { type CheckpointDescription, descriptionFile, printDescription, stateFile } from './description.ts'
import { latestFile, listCheckpoints, removeUnfinished, replacedSuffix, stepFolder } from './folders.ts'

export interface WrittenCheckpoint {
  readonly path: string
  /** Size of the state file. */
  readonly bytes: number
  /** Names of the older checkpoints that were removed to keep `keep` of them. */
  readonly removed: readonly string[]
}

/**
 * Writes the checkpoint `step-000123` into `directory` (created if it is not there) and points `latest` at it. All is
 * written under a temporary name first, so a kill at any moment leaves the last whole checkpoint readable; older ones
 * are removed only once the new one is in place, until `keep` are left. The step's former checkpoint, if there is one,
 * is replaced.
 *
 * @param tensors every parameter under its own name, optimizer states under names like `adam.m.<parameter>`
 * @throws MeshwrightError `DATA_*` when the folder cannot be written; the unfinished checkpoint is removed
 */
export async function writeCheckpoint(
  directory: string,
  description: CheckpointDescription,
  tensors: Iterable<TensorToWrite>,
  keep = 3,
): Promise<WrittenCheckpoint> {
  if (!Number.isSafeInteger(keep) || keep < 1) throw internalError(`keep ${keep} checkpoints`)
  const name = stepFolder(description.step)
  const path = join(directory, name)
  const unfinished = `${path}.tmp`
  try {
    makeFolder(directory)
    removeUnfinished(directory)
    mkdirSync(unfinished)
    // The format entry is what other libraries look for before they load a file.
    const state = await writeSafetensors(join(unfinished, stateFile), tensors, { format: 'pt' })
    writeFileAtomic(
      join(unfinished, descriptionFile),
      printDescription(description, { file: stateFile, ...state }),
    )
    // A former checkpoint of this step makes room first, so that the pointer below can never mean it. The pointer goes
    // before the rename: until the folder has its name a reader falls back to the newest step before it. The other way
    // round, a kill in between would hide a checkpoint that is whole.
    const former = `${path}${replacedSuffix}`
    if (existsSync(path)) renameSync(path, former)
    writeFileAtomic(join(directory, latestFile), `${name}\n`)
    renameSync(unfinished, path)
    rmSync(former, { recursive: true, force: true })
    syncFolder(directory)
    return { path, bytes: state.bytes, removed: removeOlder(directory, description.step, keep) }
  } catch (cause) {
    try {
      rmSync(unfinished, { recursive: true, force: true })
    } catch {}
    throw writeFailure(path, cause)
  }
}

function removeOlder(directory: string, step: number, keep: number): readonly string[] {
  const removed = listCheckpoints(directory, step).slice(keep)
  for (const name of removed) rmSync(join(directory, name), { recursive: true, force: true })
  return removed
}
