import { calibrate, noRuntimeError } from '../engine/index.ts'
import { type Program, rankCount } from '../program/index.ts'
import type { MeasuredTable } from '../simulate/index.ts'
import { Progress } from './progress.ts'

export interface MeasureOptions {
  /** About how long it may take. Default 30. */
  readonly seconds?: number
  readonly shouldStop?: () => boolean
}

/** Times what programs are made of on this machine, with progress on standard error. @throws as `calibrate` */
export async function measureCosts(
  programs: readonly Program[],
  { seconds = 30, shouldStop }: MeasureOptions = {},
): Promise<MeasuredTable> {
  const progress = new Progress('costs')
  progress.update(0, 'starting workers')
  const table = await calibrate(programs, {
    seconds,
    software: { 'onnxruntime-node': await runtimeVersion() },
    onProgress: (fraction, text) => progress.update(Math.min(fraction, 0.999), text),
    ...(shouldStop === undefined ? {} : { shouldStop }),
  })
  progress.clear()
  return table
}

/** What a person should know about figures of this program from a machine of so many cores; undefined: nothing. */
export function coresWarning({ mesh }: Pick<Program, 'mesh'>, cores: number): string | undefined {
  const ranks = rankCount(mesh)
  return ranks > cores
    ? `${ranks} ranks outnumber ${cores === 1 ? 'the one core' : `${cores} cores`}: tasks are timed on ${cores} at once, and the step is predicted as if each rank had a core of its own`
    : undefined
}

async function runtimeVersion(): Promise<string> {
  try {
    const { env } = await import('onnxruntime-node')
    return env.versions.node ?? env.versions.common
  } catch (error) {
    throw noRuntimeError(error)
  }
}
