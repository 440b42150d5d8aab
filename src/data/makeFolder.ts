import { mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/**
 * Creates a folder and those above it. One at a time, since Node's own recursive form never returns where a folder's
 * parent exists and still says "no such file" (below /proc).
 */
export function makeFolder(path: string): void {
  const folder = resolve(path)
  const parent = dirname(folder)
  try {
    if (statSync(folder).isDirectory()) return
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    if (parent !== folder) makeFolder(parent)
  }
  try {
    mkdirSync(folder)
  } catch (cause) {
    // Somebody else may have made it meanwhile.
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(folder).isDirectory()) throw cause
  }
}
