import { internalError } from '../../base/index.ts'
import { type Action, entryActions, type Schedule } from '../../schedule/index.ts'
import type { Work } from '../types.ts'
import type { Dag, DagOperand, DagValue, DagWrite } from './dag.ts'
import { replicaGroup } from './groups.ts'
import type { StageInfo } from './stages.ts'
import { type StageOperand, type StageTask, stageTask } from './stageTask.ts'
import type { Storage } from './storage.ts'

/** Pass 1: a run for each action of the schedule, in the order of its actor's list; an F and the B that follows are one. */
export function lowerCompute(
  dag: Dag,
  stages: readonly StageInfo[],
  schedule: Schedule,
  storage: Storage,
  method: Work['method'],
): void {
  const started = new Set<string>()
  const makers = stages.map((info) => new StageMaker(dag, stages, info, storage, method, started))
  schedule.actors.forEach((entries) => {
    // Updates follow the last micro-batch whether the schedule names them or not (lowerUpdate).
    const actions = entries
      .flatMap((entry, at) => entryActions(entry).map((action) => ({ action, at })))
      .filter(({ action }) => action.phase !== 'U')
    // Actions of a pair come after the entry before it, in whichever order what they need is there.
    let before: readonly number[] = []
    let ends: number[] = []
    let entry = -1
    for (let index = 0; index < actions.length; index++) {
      const { action, at } = actions[index]!
      const next = actions[index + 1]
      const { stage: acting } = action
      if (at !== entry) {
        if (ends.length > 0) before = ends
        ends = []
        entry = at
      }
      const fused =
        action.phase === 'F' &&
        next?.action.phase === 'B' &&
        next.action.stage === acting &&
        next.action.microbatch === action.microbatch &&
        stages[acting]?.piece.sends.length === 0 &&
        // One task reads parameters once: not where they are let go in between.
        storage.parameters(acting, { stage: acting, entry: at }).window ===
          storage.parameters(acting, { stage: acting, entry: next.at }).window
      if (fused) index++
      const maker = makers[action.stage]
      if (maker === undefined) throw internalError(`no stage ${action.stage}`)
      // In one task, a backward's gradients still belong to its own window.
      const gradientsAt = actions[index]!.at
      // What is recomputed for the first half of a backward is there for the second.
      let after = before
      if (stages[action.stage]!.tasks.R !== undefined && (action.phase === 'B' || action.phase === 'I')) {
        const { stage, microbatch } = action
        after = [maker.run({ phase: 'R', stage, microbatch }, { entry: at, gradientsAt, after })]
      }
      ends.push(maker.run(fused ? { ...action, phase: 'FB' } : action, { entry: at, gradientsAt, after }))
    }
  })
}

/** Adds runs of one stage, making each of its tasks once. */
class StageMaker {
  private readonly tasks = new Map<string, StageTask>()
  /** What has been written of accumulators, on all actors. */
  private readonly started: Set<string>
  private readonly dag: Dag
  private readonly stages: readonly StageInfo[]
  private readonly info: StageInfo
  private readonly storage: Storage
  private readonly method: Work['method']

  constructor(
    dag: Dag,
    stages: readonly StageInfo[],
    info: StageInfo,
    storage: Storage,
    method: Work['method'],
    started: Set<string>,
  ) {
    this.storage = storage
    this.started = started
    this.dag = dag
    this.stages = stages
    this.info = info
    this.method = method
  }

  run(
    action: Action,
    {
      entry,
      gradientsAt,
      after,
    }: { readonly entry: number; readonly gradientsAt: number; readonly after: readonly number[] },
  ): number {
    let made = this.tasks.get(action.phase)
    if (made === undefined) {
      made = stageTask(this.info, action.phase, this.stages, this.method)
      for (const { buffer, type } of [...made.reads, ...made.writes])
        if (type !== undefined)
          this.dag.buffer(this.info.actor, buffer, type, {
            sumOver: buffer === 'loss' ? replicaGroup(this.info)?.name : undefined,
          })
      this.tasks.set(action.phase, made)
    }
    const { stage } = this.info
    const { microbatch } = action
    const at = ({ buffer, index }: StageOperand): DagValue => {
      if (index === 'microbatch') return { buffer, microbatch }
      if (index === 'none') return { buffer }
      return 'parameters' in index
        ? this.storage.parameters(index.parameters, { stage, entry })
        : this.storage.gradients(index.gradients, { stage, entry: gradientsAt })
    }
    const reads = made.reads.map((read): DagOperand => {
      const { region } = read
      return region === undefined ? at(read) : { ...at(read), region }
    })
    const writes = made.writes.map((write): DagWrite => {
      if (write.index === 'microbatch') return { buffer: write.buffer, microbatch, mode: 'set' }
      const value = at(write)
      const { region } = write
      const key = `${this.info.actor} ${value.buffer} ${value.window} ${region?.start}`
      const first = !this.started.has(key)
      this.started.add(key)
      return { ...value, ...(region === undefined ? {} : { region }), mode: first ? 'set' : 'add' }
    })
    return this.dag.add({
      kind: 'run',
      actor: this.info.actor,
      stream: 'compute',
      task: made.task,
      reads,
      writes,
      action,
      latency: made.latency,
      ...(after.length === 0 ? {} : { after }),
    })
  }
}
