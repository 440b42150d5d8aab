import { internalError } from '../../base/index.ts'
import { type Action, entryActions, type Schedule } from '../../schedule/index.ts'
import type { Group, Work } from '../types.ts'
import type { CutGraph } from './cutGraph.ts'
import type { Dag, DagOperand, DagValue, DagWrite } from './dag.ts'
import { lossGroup } from './groups.ts'
import type { StageInfo } from './packs.ts'
import { type GradientWriters, gradientWriters } from './places.ts'
import {
  cutPhase,
  type StageCollective,
  type StageOperand,
  type StageRun,
  type StageStep,
  stageGraph,
  stageSteps,
} from './stageTask.ts'
import type { Storage } from './storage.ts'

/** An action that is lowered, an F and the B that follows as one, and where in its actor's list it stands. */
interface PlannedAction {
  readonly action: Action
  readonly entry: number
  /** In one task, a backward's gradients still belong to its own window. */
  readonly gradientsAt: number
}

/**
 * Pass 1: what each action of the schedule does, in the order of its actor's list: a run, or several with collectives
 * between them; an F and the B that follows are one. Returns the groups that came into use.
 */
export function lowerCompute(
  dag: Dag,
  stages: readonly StageInfo[],
  schedule: Schedule,
  storage: Storage,
  method: Work['method'],
): Group[] {
  const planned = schedule.actors.map((entries) => plannedActions(stages, entries, storage))
  const phases = stages.map(() => new Set<string>())
  for (const { action } of planned.flat()) phases[action.stage]?.add(action.phase)
  const started = new Set<string>()
  const makers = stages.map(
    (info, stage) => new StageMaker(dag, stages, info, storage, method, started, phases[stage]!),
  )
  for (const actions of planned) {
    // Actions of a pair come after the entry before it, in whichever order what they need is there.
    let before: readonly number[] = []
    let ends: number[] = []
    let last = -1
    for (const { action, entry, gradientsAt } of actions) {
      if (entry !== last) {
        if (ends.length > 0) before = ends
        ends = []
        last = entry
      }
      const maker = makers[action.stage]
      if (maker === undefined) throw internalError(`no stage ${action.stage}`)
      // What is recomputed for the first half of a backward is there for the second.
      let after = before
      if (stages[action.stage]!.tasks.R !== undefined && (action.phase === 'B' || action.phase === 'I')) {
        const { stage, microbatch } = action
        after = maker.run({ phase: 'R', stage, microbatch }, { entry, gradientsAt, after })
      }
      ends.push(...maker.run(action, { entry, gradientsAt, after }))
    }
  }
  return makers.flatMap(({ groups }) => groups)
}

function plannedActions(
  stages: readonly StageInfo[],
  entries: Schedule['actors'][number],
  storage: Storage,
): PlannedAction[] {
  // Updates follow the last micro-batch whether the schedule names them or not (lowerUpdate).
  const actions = entries
    .flatMap((entry, at) => entryActions(entry).map((action) => ({ action, at })))
    .filter(({ action }) => action.phase !== 'U')
  const planned: PlannedAction[] = []
  for (let index = 0; index < actions.length; index++) {
    const { action, at } = actions[index]!
    const next = actions[index + 1]
    const { stage } = action
    const info = stages[stage]
    const fused =
      action.phase === 'F' &&
      next?.action.phase === 'B' &&
      next.action.stage === stage &&
      next.action.microbatch === action.microbatch &&
      info?.piece.sends.length === 0 &&
      !info.holdsAsOne &&
      // One task reads parameters once: not where they are let go in between.
      info.packs.every(
        ({ home }) =>
          storage.parameters(home, { stage, entry: at }).window ===
          storage.parameters(home, { stage, entry: next.at }).window,
      )
    if (fused) index++
    const gradientsAt = actions[index]!.at
    planned.push({ action: fused ? { ...action, phase: 'FB' } : action, entry: at, gradientsAt })
  }
  return planned
}

/** Adds what actions of one stage do, making each of its tasks once. */
class StageMaker {
  readonly groups: Group[] = []
  private readonly steps = new Map<string, readonly StageStep[]>()
  /** What has been written of accumulators, on all actors. */
  private readonly started: Set<string>
  private readonly dag: Dag
  private readonly stages: readonly StageInfo[]
  private readonly info: StageInfo
  private readonly storage: Storage
  private readonly method: Work['method']
  private readonly cuts = new Map<string, CutGraph | undefined>()
  private readonly writers: GradientWriters

  constructor(
    dag: Dag,
    stages: readonly StageInfo[],
    info: StageInfo,
    storage: Storage,
    method: Work['method'],
    started: Set<string>,
    phases: ReadonlySet<string>,
  ) {
    this.storage = storage
    this.started = started
    this.dag = dag
    this.stages = stages
    this.info = info
    this.method = method
    let crossings = 0
    for (const phase of info.tasks.R === undefined ? phases : [...phases, 'R']) {
      const cut = cutPhase(stages, info, stageGraph(info, phase, method), crossings)
      crossings = cut?.nextCrossing ?? crossings
      this.cuts.set(phase, cut)
    }
    this.writers = gradientWriters(info, [...this.cuts.values()])
  }

  /** Returns the runs that were added. */
  run(
    action: Action,
    place: { readonly entry: number; readonly gradientsAt: number; readonly after: readonly number[] },
  ): number[] {
    const runs: number[] = []
    for (const step of this.stepsOf(action.phase))
      if (step.kind === 'run') runs.push(this.addRun(step, action, place))
      else {
        // What needs no run to be made, gathered weights, say, is made during one run and read by the next: not earlier.
        const before = runs.at(-2)
        this.addCollective(step, action, {
          ...place,
          after: before === undefined ? place.after : [...place.after, before],
        })
      }
    return runs
  }

  private stepsOf(phase: string): readonly StageStep[] {
    const known = this.steps.get(phase)
    if (known !== undefined) return known
    const cut = this.cuts.get(phase)
    const made = stageSteps(this.info, phase, this.stages, this.method, { cut, writers: this.writers })
    for (const step of made) {
      if (step.kind === 'collective') this.groups.push(step.group)
      const operands =
        step.kind === 'run'
          ? [...step.reads, ...step.writes]
          : step.parts.flatMap(({ source, result }) => [source, result])
      for (const operand of operands) this.declare(operand)
    }
    this.steps.set(phase, made)
    return made
  }

  private declare({ buffer, type, constant, terms }: StageOperand): void {
    if (type === undefined) return
    const group = buffer === 'loss' ? lossGroup(this.info) : terms
    if (terms !== undefined) this.groups.push(terms)
    this.dag.buffer(this.info.actor, buffer, type, {
      sumOver: group?.name,
      ...(constant === undefined ? {} : { constant }),
    })
  }

  private addRun(
    { task, latency, reads, writes }: StageRun,
    action: Action,
    { entry, gradientsAt, after }: Parameters<StageMaker['run']>[1],
  ): number {
    return this.dag.add({
      kind: 'run',
      actor: this.info.actor,
      stream: 'compute',
      task,
      reads: reads.map((read) => this.operand(read, action, entry)),
      writes: writes.map((write) => this.write(write, action, gradientsAt)),
      action,
      latency,
      ...(after.length === 0 ? {} : { after }),
    })
  }

  private addCollective(
    { stream, operation, reduce, group, root, shift, parts }: StageCollective,
    action: Action,
    { entry, gradientsAt, after }: Parameters<StageMaker['run']>[1],
  ): void {
    const members = [
      {
        actor: this.info.actor,
        parts: parts.map(({ source, result }) => ({
          source: this.operand(source, action, entry),
          result: this.write(result, action, gradientsAt),
        })),
      },
    ]
    this.dag.add({
      kind: 'collective',
      stream,
      operation,
      reduce,
      group: group.name,
      root,
      shift,
      members,
      latency: 0,
      ...(after.length === 0 ? {} : { after }),
    })
  }

  private value({ buffer, index }: StageOperand, { microbatch }: Action, entry: number): DagValue {
    const { stage } = this.info
    if (index === 'microbatch') return { buffer, microbatch }
    if (index === 'none') return { buffer }
    return 'parameters' in index
      ? this.storage.parameters(index.parameters, { stage, entry })
      : this.storage.gradients(index.gradients, { stage, entry })
  }

  private operand(read: StageOperand, action: Action, entry: number): DagOperand {
    const { region } = read
    const value = this.value(read, action, entry)
    return region === undefined ? value : { ...value, region }
  }

  private write(write: StageOperand, action: Action, entry: number): DagWrite {
    if (write.index === 'microbatch')
      return { buffer: write.buffer, microbatch: action.microbatch, mode: 'set' }
    const value = this.operand(write, action, entry)
    const key = `${this.info.actor} ${value.buffer} ${value.window} ${value.region?.start}`
    const first = !this.started.has(key)
    this.started.add(key)
    return { ...value, mode: first ? 'set' : 'add' }
  }
}
