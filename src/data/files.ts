import { closeSync, fstatSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import { MeshwrightError } from '../base/index.ts'
import { notAFile, readFailure } from './fileErrors.ts'

/** One read or write call moves at most this much: Node refuses more than 2^31 - 1 bytes. */
const largestTransfer = 2 ** 30

/**
 * Opens a regular file, hands its descriptor and size in bytes to `use`, and closes it whatever happens. Pipes and
 * devices are refused before they are opened, since opening one may wait forever.
 */
export function withFile<T>(path: string, what: string, use: (descriptor: number, bytes: number) => T): T {
  let descriptor: number
  try {
    if (!statSync(path).isFile()) {
      throw notAFile(path, what, statSync(path).isDirectory() ? 'is a folder' : 'is a pipe or device')
    }
    descriptor = openSync(path, 'r')
  } catch (cause) {
    throw readFailure(path, what, cause)
  }
  try {
    return use(descriptor, fstatSync(descriptor).size)
  } catch (cause) {
    throw readFailure(path, what, cause)
  } finally {
    closeSync(descriptor)
  }
}

/** Fills `target` from `position` on; gives the bytes read, fewer than asked only where the file ends. */
export function readFully(descriptor: number, target: Uint8Array, position: number): number {
  let done = 0
  while (done < target.byteLength) {
    const length = Math.min(largestTransfer, target.byteLength - done)
    const count = readSync(descriptor, target, done, length, position + done)
    if (count === 0) break
    done += count
  }
  return done
}

/** Writes all of `source` at the end of what was written. */
export function writeFully(descriptor: number, source: Uint8Array): void {
  let done = 0
  while (done < source.byteLength) {
    done += writeSync(descriptor, source, done, Math.min(largestTransfer, source.byteLength - done))
  }
}

/** A whole file of at most `maximumBytes`; a larger one is refused before any of it is read (DATA_TOO_LARGE). */
export function readWholeFile(path: string, what: string, maximumBytes: number): Uint8Array {
  return withFile(path, what, (descriptor, bytes) => {
    if (bytes > maximumBytes) {
      throw new MeshwrightError(
        'DATA_TOO_LARGE',
        `the ${what} ${path} is ${bytes} bytes; the most that is read is ${maximumBytes}`,
        { at: { file: path }, hint: 'give a smaller file' },
      )
    }
    const content = new Uint8Array(bytes)
    return content.subarray(0, readFully(descriptor, content, 0))
  })
}
