import type { Action } from '../../schedule/index.ts'
import { operandRows, valueRows } from '../accesses.ts'
import { formatOperand } from '../text/operands.ts'
import type { GraphTask, Operand, Role } from '../types.ts'
import { checkDeclaredRuns } from './declaredRuns.ts'
import { type Finding, isOncePerStep, type RoleView, type VerifyContext } from './finding.ts'
import { type Complain, complaints, type Run } from './findingAt.ts'
import { actionRules, gathersOf, type OperandRule, type TaskRules } from './operandRules.ts'
import { homesOf, packMismatches } from './packs.ts'
import { checkUpdates } from './updates.ts'

/** Which stages run a task, and what ids each stage's tables are gathered by. */
interface Sharing {
  readonly stages: ReadonlyMap<number, ReadonlySet<number>>
  readonly gathers: ReadonlyMap<number, ReadonlyMap<string, ReadonlySet<string>>>
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
  /** The first run of each stage and phase: the others differ from it in their micro-batch alone. */
  const models = new Map<string, { readonly run: Run; readonly sound: boolean }>()
  view.instructions.forEach((instruction, index) => {
    if (instruction.kind !== 'run' || instruction.action === undefined) return
    const task = context.program.tasks[instruction.task]
    const action = role.actions[instruction.action]
    if (task?.kind !== 'graph' || action === undefined || isOncePerStep(action)) return
    const key = `${action.stage} ${action.phase}`
    const model = models.get(key)
    if (model?.sound === true && isAlike(role, model.run, instruction, action)) return
    const rules = rulesOf(instruction.task, task, action.stage, view)
    const found = complaints(context, view, index, (complain) => {
      if (model !== undefined && model.run.task !== instruction.task)
        complain(
          'BINDING_TASK',
          `runs another task than the first ${action.phase} of stage ${action.stage}, ${context.program.tasks[model.run.task]?.name}`,
          'run the same task for every micro-batch',
        )
      const operands = [...instruction.reads, ...instruction.writes]
      for (const [at, rule] of [...rules.reads, ...rules.writes].entries())
        checkOperand(role, operands[at]!, rule, action, complain)
      const isShared = sharing.stages.get(instruction.task)!.size > 1
      for (const message of packMismatches(role, task, instruction, isShared))
        complain('BINDING_TENSOR', message, 'put every tensor where its pack has it')
    })
    models.set(key, model ?? { run: instruction, sound: found.length === 0 })
    findings.push(...found)
  })
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
  if (!rule.buffers.includes(buffer.name))
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
function isAlike(role: Role, model: Run, run: Run, { microbatch }: Action): boolean {
  if (model.task !== run.task) return false
  const alike = (ours: readonly Operand[], theirs: readonly Operand[]): boolean =>
    ours.length === theirs.length &&
    ours.every((operand, index) => {
      const [a, b] = [role.values[operand.value]!, role.values[theirs[index]!.value]!]
      const indexed = a.microbatch === undefined ? undefined : microbatch
      const { region } = theirs[index]!
      return (
        a.buffer === b.buffer && a.step === b.step && b.microbatch === indexed && region === operand.region
      )
    })
  return alike(model.reads, run.reads) && alike(model.writes, run.writes)
}

function sharingOf({ program, roles }: VerifyContext): Sharing {
  const stages = new Map<number, Set<number>>()
  const gathers = new Map<number, Map<string, Set<string>>>()
  for (const { role, instructions } of roles)
    for (const instruction of instructions) {
      if (instruction.kind !== 'run' || instruction.action === undefined) continue
      const task = program.tasks[instruction.task]
      const action = role.actions[instruction.action]
      if (task?.kind !== 'graph' || action === undefined || isOncePerStep(action)) continue
      const sharers = stages.get(instruction.task) ?? new Set<number>()
      stages.set(instruction.task, sharers)
      if (sharers.has(action.stage)) continue
      sharers.add(action.stage)
      const tables = gathers.get(action.stage) ?? new Map<string, Set<string>>()
      gathers.set(action.stage, tables)
      for (const [table, ids] of gathersOf(task.graph))
        tables.set(table, (tables.get(table) ?? new Set()).add(ids))
    }
  return { stages, gathers }
}
