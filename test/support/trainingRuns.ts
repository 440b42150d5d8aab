/** whole runs of training, as the command makes them. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compile } from '../../src/cli/prepare.ts'
import { runTraining, type TrainingOutcome, type TrainingRequest } from '../../src/cli/training.ts'
import type { StateTensors } from '../../src/engine/types.ts'
import { parsePlan } from '../../src/plan/index.ts'

/** Trains under the plan. Files that it names are relative to `directory`. */
export function trainPlan(
  document: Record<string, unknown>,
  options: Pick<TrainingRequest, 'steps'> & Partial<TrainingRequest> & { readonly directory?: string },
): Promise<TrainingOutcome> {
  const { directory = process.cwd(), ...request } = options
  const loaded = { document: parsePlan(JSON.stringify(document)), directory, source: 'a test' }
  return runTraining({
    loaded,
    compiled: compile(loaded),
    validateEvery: 0,
    checkpointEvery: 1000,
    ...request,
  })
}

/** A temporary folder that `remove` takes away with all that is in it. */
export function temporaryFolder(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'meshwright-test-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** A digest of the bytes of every tensor, in the order of names, to compare bit by bit. */
export function digests(tensors: StateTensors): Record<string, string> {
  return Object.fromEntries(
    [...tensors.keys()].sort().map((name) => {
      const { buffer, byteOffset, byteLength } = tensors.get(name)!.data
      return [
        name,
        createHash('sha256')
          .update(new Uint8Array(buffer, byteOffset, byteLength))
          .digest('hex'),
      ]
    }),
  )
}
