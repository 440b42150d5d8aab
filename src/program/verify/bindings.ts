import type { Action } from '../../schedule/index.ts'
import { operandRows, valueRows } from '../accesses.ts'
import { formatOperand } from '../text/operands.ts'
import type { GraphTask, Operand, Role } from '../types.ts'
import { checkDeclaredRuns } from './declaredRuns.ts'
import { type Finding, isOncePerStep, type RoleView, type VerifyContext } from './finding.ts'
import { type Complain, complaints, type Run } from './findingAt.ts'
import { actionRules, gathersOf, type OperandRule, type TaskRules } from './operandRules.ts'
import { homesOf, packMismatches } from './packs.ts'
import { absent } from './roleView.ts'
import { checkUpdates } from './updates.ts'

/** Which stages run a task, and what ids each stage's tables are gathered by. */
interface Sharing {
  readonly stages: ReadonlyMap<number, ReadonlySet<number>>
  readonly gathers: ReadonlyMap<number, ReadonlyMap<string, ReadonlySet<string>>>
}

/** Runs of the first action of a stage and phase, and how many of each micro-batch's have come. */
interface Model {
  readonly microbatch: number
  readonly parts: { readonly index: number; readonly sound: boolean }[]
  readonly done: Map<number, number>
}

/**
 * Every run works on the values that its action and its task's names say: those of its own micro-batch, stage and
 * version. A program in which two are exchanged runs just as well, and trains another model.
 */
export function checkBindings(context: VerifyContext): Finding[] {
  if (context.program.work.method === 'declared')
    return context.roles.flatMap((view) => checkDeclaredRuns(context, view))
  const sharing = sharingOf(context)
  const rules = new Map<string, TaskRules>()
  const rulesOf = (index: number, task: GraphTask, stage: number, view: RoleView): TaskRules => {
    const key = `${index} ${stage} ${view.index}`
    const known = rules.get(key)
    if (known !== undefined) return known
    const made = actionRules(
      task,
      stage,
      sharing.stages.get(index) ?? new Set([stage]),
      sharing.gathers.get(stage) ?? new Map(),
      homesOf(view.role, stage),
    )
    rules.set(key, made)
    return made
  }
  return context.roles.flatMap((view) => [
    ...checkActionRuns(context, view, sharing, rulesOf),
    ...checkUpdates(context, view),
  ])
}

function checkActionRuns(
  context: VerifyContext,
  view: RoleView,
  sharing: Sharing,
  rulesOf: (index: number, task: GraphTask, stage: number, view: RoleView) => TaskRules,
): Finding[] {
  const { role } = view
  const findings: Finding[] = []
  /** The runs of the first action of each stage and phase: the others differ from them in their micro-batch alone. */
  const models = new Map<string, Model>()
  for (const index of view.of('run')) {
    const task = context.program.tasks[view.code.target[index]!]
    const number = view.actionOf(index)
    const action = role.actions[number]
    if (task?.kind !== 'graph' || action === undefined || isOncePerStep(action)) continue
    const key = `${action.phase} ${action.stage}`
    const known = models.get(key) ?? {
      microbatch: action.microbatch,
      parts: [],
      done: new Map<number, number>(),
    }
    models.set(key, known)
    const part = known.done.get(action.microbatch) ?? 0
    known.done.set(action.microbatch, part + 1)
    const model = known.microbatch === action.microbatch ? undefined : known.parts[part]
    if (model?.sound === true && isAlike(view, model.index, index, action)) continue
    const instruction = view.instruction(index) as Run
    const modelTask = model === undefined ? instruction.task : view.code.target[model.index]!
    const rules = rulesOf(instruction.task, task, action.stage, view)
    const found = complaints(context, view, index, (complain) => {
      if (modelTask !== instruction.task)
        complain(
          'BINDING_TASK',
          `runs another task than the first ${action.phase} of stage ${action.stage}, ${context.program.tasks[modelTask]?.name}`,
          'run the same task for every micro-batch',
        )
      const operands = [...instruction.reads, ...instruction.writes]
      for (const [at, rule] of [...rules.reads, ...rules.writes].entries())
        checkOperand(role, operands[at]!, rule, action, complain)
      const isShared = sharing.stages.get(instruction.task)!.size > 1
      const submesh = context.program.mesh.submeshes[role.pipeline] ?? []
      for (const message of packMismatches(role, submesh, task, instruction, isShared))
        complain('BINDING_TENSOR', message, 'put every tensor where its pack has it')
    })
    if (known.microbatch === action.microbatch) known.parts.push({ index, sound: found.length === 0 })
    findings.push(...found)
  }
  return findings
}

function checkOperand(
  role: Role,
  operand: Operand,
  rule: OperandRule,
  { microbatch }: Action,
  complain: Complain,
): void {
  const instance = role.values[operand.value]
  const buffer = role.buffers[instance?.buffer ?? -1]
  if (instance === undefined || buffer === undefined) return
  const name = formatOperand(role, operand)
  const wanted = rule.buffers.join(' or ')
  // Of ids that no task of the stage gathers by, nothing is known.
  if (!rule.buffers.includes(buffer.name) && !(rule.what === 'ids' && rule.buffers.length === 0))
    complain('BINDING_BUFFER', `has ${name} as its ${rule.what}`, `name ${wanted || 'another buffer'} there`)
  const expected = rule.index === 'microbatch' ? microbatch : undefined
  if (instance.microbatch !== expected)
    complain(
      'BINDING_MICROBATCH',
      `has ${name} as its ${rule.what}`,
      expected === undefined
        ? `name ${buffer.name}, which belongs to no micro-batch`
        : `name ${buffer.name}[${expected}]: a run works on the values of its own micro-batch`,
    )
  if (rule.index === 'window' && instance.window === undefined)
    complain('BINDING_VERSION', `has ${name} as its ${rule.what}`, `name ${buffer.name} of a window`)
  const version = rule.index === 'version' ? 0 : undefined
  if (instance.step !== version || (version !== undefined && buffer.state !== true))
    complain(
      'BINDING_VERSION',
      `has ${name} as its ${rule.what}`,
      version === undefined ? 'name a value of this step' : 'read the state as the step finds it',
    )
  const { start, end } = operandRows(role, operand)
  if (
    rule.inParts !== true &&
    operand.region !== undefined &&
    (start !== 0 || end !== valueRows(role, operand.value))
  )
    complain('BINDING_REGION', `has only ${name} as its ${rule.what}`, 'name all of it')
}

/** Whether a run is the model's but for its micro-batch, which is its action's. */
function isAlike({ code, values }: RoleView, model: number, run: number, { microbatch }: Action): boolean {
  const { start, operands, target } = code
  const [ours, theirs] = [start[model]!, start[run]!]
  const length = start[model + 1]! - ours
  if (target[model] !== target[run] || length !== start[run + 1]! - theirs) return false
  if (operands[ours + 1] !== operands[theirs + 1]) return false
  const readsEnd = 2 + 2 * operands[ours + 1]!
  for (let place = 2; place < length; place += place < readsEnd ? 2 : 3) {
    const [a, b] = [operands[ours + place]!, operands[theirs + place]!]
    if (values.buffer[a] !== values.buffer[b] || values.step[a] !== values.step[b]) return false
    if (values.microbatch[b] !== (values.microbatch[a] === absent ? absent : microbatch)) return false
    if (operands[ours + place + 1] !== operands[theirs + place + 1]) return false
  }
  return true
}

function sharingOf({ program, roles }: VerifyContext): Sharing {
  const stages = new Map<number, Set<number>>()
  const gathers = new Map<number, Map<string, Set<string>>>()
  for (const view of roles)
    for (const index of view.of('run')) {
      const number = view.code.target[index]!
      const task = program.tasks[number]
      const action = view.role.actions[view.actionOf(index)]
      if (task?.kind !== 'graph' || action === undefined || isOncePerStep(action)) continue
      const sharers = stages.get(number) ?? new Set<number>()
      stages.set(number, sharers)
      if (sharers.has(action.stage)) continue
      sharers.add(action.stage)
      const tables = gathers.get(action.stage) ?? new Map<string, Set<string>>()
      gathers.set(action.stage, tables)
      for (const [table, ids] of gathersOf(task.graph))
        tables.set(table, (tables.get(table) ?? new Set()).add(ids))
    }
  return { stages, gathers }
}
