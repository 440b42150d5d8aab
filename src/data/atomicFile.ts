import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { writeFailure } from './fileErrors.ts'
import { writeFully } from './files.ts'

/** How names of files not yet whole end; `isTemporaryOf` knows them again. */
const temporarySuffix: RegExp = /^\.[0-9a-f]{12}\.tmp$/

/** Whether `name` is what an interrupted write of `target` (a name in the same folder) may have left. */
export function isTemporaryOf(target: string, name: string): boolean {
  return name.startsWith(target) && temporarySuffix.test(name.slice(target.length))
}

/**
 * Writes a small file so that at any moment, also after a crash, `path` holds either its old content or all of the
 * new: a temporary name in the same folder, fsync, rename, fsync of the folder. Errors name `path` and leave nothing
 * behind.
 */
export function writeFileAtomic(path: string, content: string | Uint8Array): void {
  const temporary = temporaryName(path)
  try {
    const descriptor = openSync(temporary, 'wx')
    try {
      writeFully(descriptor, typeof content === 'string' ? new TextEncoder().encode(content) : content)
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    renameSync(temporary, path)
    syncFolder(dirname(path))
  } catch (cause) {
    removeQuietly(temporary)
    throw writeFailure(path, cause)
  }
}

/** The same for a large file: `write` fills the handle piece by piece. */
export async function writeFileAtomicWith(
  path: string,
  write: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  const temporary = temporaryName(path)
  try {
    const handle = await open(temporary, 'wx')
    try {
      await write(handle)
      await handle.sync()
    } finally {
      await handle.close()
    }
    renameSync(temporary, path)
    syncFolder(dirname(path))
  } catch (cause) {
    removeQuietly(temporary)
    throw writeFailure(path, cause)
  }
}

/** Makes renames inside a folder last through a power failure, where the platform can (Windows cannot). */
export function syncFolder(folder: string): void {
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

function temporaryName(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}.tmp`
}

/** Cleaning up after a failure must not hide it. */
function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {}
}
