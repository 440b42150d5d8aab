import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { modelNumbers, optimizer, planText } from './cases.ts'
import { type Job, modes } from './job.ts'
import { type Python, torchEnvironment } from './python.ts'
import { Side } from './side.ts'
import type { Case } from './types.ts'

export interface Effort {
  /** What a case may take for its timed steps, all sides together. */
  readonly seconds: number
  readonly minimumRounds: number
  readonly maximumRounds: number
  /** How long one side runs before it is the other's turn. */
  readonly roundSeconds: number
}

export interface Bench {
  /** Of the repository. */
  readonly root: string
  /** For files that both sides read; the caller removes it. */
  readonly folder: string
  readonly python: Python
  readonly effort: Effort
  /** Told after each round; `fraction` of the case. */
  readonly onProgress: (fraction: number) => void
}

/** Different batches that the steps go through in turn. */
const batches = 4

/** Our side; without a job it only multiplies. */
export function startOurs<T>(
  bench: Bench,
  job: Job | null,
): Promise<{ readonly side: Side; readonly hello: T }> {
  const script = fileURLToPath(new URL('./ours.js', import.meta.url))
  return Side.start<T>(
    'Meshwright',
    process.execPath,
    [script, writeJobFile(bench, 'ours', job)],
    process.env,
  )
}

/** PyTorch's: one process, or `ranks` of them under torchrun. */
export function startTorch(
  bench: Bench,
  job: Job | null,
  ranks: number,
): Promise<{ readonly side: Side; readonly hello: unknown }> {
  const launcher =
    ranks === 1 ? [] : ['-m', 'torch.distributed.run', '--standalone', `--nproc-per-node=${ranks}`]
  const args = [
    ...launcher,
    join(bench.root, 'bench', 'torch', 'serve.py'),
    writeJobFile(bench, 'torch', job),
  ]
  return Side.start('PyTorch', bench.python.command, args, torchEnvironment())
}

function writeJobFile(bench: Bench, name: string, job: Job | null): string {
  const path = join(bench.folder, `${name}.json`)
  writeFileSync(path, JSON.stringify(job))
  return path
}

/** What both sides of a case are told, and the batches. */
export function writeJob(bench: Bench, one: Case): Job {
  const { shape, part, microbatches, sequenceParallel } = one
  const { layers, hidden, heads, kvHeads, mlp, vocab, samples, sequence } = shape
  const path = join(bench.folder, 'batches.i32')
  writeFileSync(path, randomTokens(2 * batches * samples * sequence, vocab))
  return {
    mode: modes[part],
    plan: planText(one),
    model: { layers, hidden, heads, kvHeads, mlp, vocab, context: sequence, ...modelNumbers },
    samples,
    sequence,
    microbatches,
    sequenceParallel,
    optimizer,
    weights: join(bench.folder, 'weights.safetensors'),
    batches: path,
  }
}

/** Any tokens do: time does not depend on them. A linear congruential generator (Numerical Recipes' constants). */
function randomTokens(count: number, vocab: number): Int32Array {
  let state = 1
  return Int32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * vocab)
  })
}
