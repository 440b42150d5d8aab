import { join } from 'node:path'
import { MeshwrightError } from '../base/index.ts'
import {
  type CheckpointDescription,
  listCheckpoints,
  type MetricsFile,
  makeFolder,
  openMetrics,
  writeCheckpoint,
  writeFailure,
  writeFileAtomic,
} from '../data/index.ts'
import { checkpointTensors, type StateTensors, type StepEvent, type StepResult } from '../engine/index.ts'
import type { Model } from '../models/index.ts'
import type { Program } from '../program/index.ts'
import { traceFromStep, writeChromeTrace } from '../trace/index.ts'

/** The folder of one run: plan.yaml, metrics.ndjson, trace.json, step-000100/ … */
export class RunFolder {
  readonly path: string
  private readonly metrics: MetricsFile
  private readonly files = new Set<string>()

  /**
   * Creates the folder and the plan file in it. A folder that holds another run's checkpoints is refused: a resume
   * could not tell whose they are.
   */
  constructor(path: string, planText: string, resumedStep: number | undefined) {
    this.path = path
    try {
      makeFolder(path)
    } catch (cause) {
      throw writeFailure(path, cause)
    }
    if (resumedStep === undefined && listCheckpoints(path).length > 0)
      throw new MeshwrightError('TRAIN_OUT_USED', `${path} holds the checkpoints of another run`, {
        at: { file: path },
        hint: `go on with it: --resume ${path}, or give another --out`,
      })
    writeFileAtomic(this.file('plan.yaml'), planText)
    this.metrics = openMetrics(this.file('metrics.ndjson'), resumedStep)
  }

  /** Everything written so far. */
  written(): string[] {
    return [...this.files]
  }

  note(event: StepEvent): void {
    this.metrics.append({
      step: event.step,
      loss: event.loss,
      gradientNorm: event.gradientNorm,
      learningRate: event.learningRate,
      tokensPerSecond: event.tokens / event.seconds,
      seconds: event.seconds,
      validationLoss: event.validationLoss,
    })
  }

  async checkpoint(
    description: CheckpointDescription,
    model: Pick<Model, 'family' | 'parameters'>,
    state: StateTensors,
  ): Promise<string> {
    this.metrics.sync()
    const written = await writeCheckpoint(this.path, description, checkpointTensors(model, state))
    for (const removed of written.removed) this.files.delete(join(this.path, removed))
    this.files.add(written.path)
    return written.path
  }

  /** The timed instructions of one step, for chrome://tracing or Perfetto. */
  trace(program: Program, result: StepResult): void {
    if (result.trace === undefined) return
    writeFileAtomic(this.file('trace.json'), writeChromeTrace(traceFromStep(program, result.trace)))
  }

  close(): void {
    this.metrics.close()
  }

  private file(name: string): string {
    const path = join(this.path, name)
    this.files.add(path)
    return path
  }
}
