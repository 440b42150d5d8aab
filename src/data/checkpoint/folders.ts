import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isTemporaryOf } from '../atomicFile.ts'

/** A small file that names the newest checkpoint folder. */
export const latestFile = 'latest'

const finished = /^step-(\d{6,15})$/
const unfinished = /^step-\d{6,15}\.tmp$/
/** The checkpoint that is just being replaced by another one of the same step. */
export const replacedSuffix = '.old'
const replaced = /^step-(\d{6,15})\.old$/

export function stepFolder(step: number): string {
  return `step-${String(step).padStart(6, '0')}`
}

/** The step of a finished checkpoint folder's name, or undefined for any other name. */
export function stepOf(name: string): number | undefined {
  const digits = finished.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/**
 * Names of finished checkpoints, the best to resume from first. Steps after `newest` are left over from a future that
 * was given up by resuming from an earlier checkpoint: they come late, and half-replaced ones last.
 */
export function listCheckpoints(directory: string, newest: number = Number.MAX_SAFE_INTEGER): string[] {
  const found: { name: string; step: number; rank: number }[] = []
  for (const name of readdirSync(directory)) {
    const former = replaced.exec(name)?.[1]
    const step = former === undefined ? stepOf(name) : Number(former)
    if (step === undefined) continue
    found.push({ name, step, rank: former !== undefined ? 2 : step > newest ? 1 : 0 })
  }
  found.sort((a, b) => a.rank - b.rank || b.step - a.step)
  return found.map(({ name }) => name)
}

/** Removes what a run that was killed while it wrote has left. */
export function removeUnfinished(directory: string): void {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    if (unfinished.test(name) || isTemporaryOf(latestFile, name)) {
      rmSync(path, { recursive: true, force: true })
    } else if (replaced.test(name)) {
      const replacement = path.slice(0, -replacedSuffix.length)
      if (existsSync(replacement)) rmSync(path, { recursive: true, force: true })
      else renameSync(path, replacement)
    }
  }
}
