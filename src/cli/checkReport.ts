import type { MeshwrightError } from '../base/index.ts'
import { formatProblem, PlanError } from '../plan/index.ts'
import { formatFinding, invariants } from '../program/index.ts'
import type { CheckReport, RunReport } from './checkPlan.ts'
import { errorDocument, placedMessage } from './errors.ts'
import { counted, formatBytes, formatError, table } from './format.ts'
import { layoutLine } from './ranks.ts'
import { paint } from './style.ts'

export function reportCheck(report: CheckReport, json: boolean): void {
  process.stdout.write(
    json ? `${JSON.stringify(checkDocument(report), null, 2)}\n` : `${checkLines(report).join('\n')}\n`,
  )
}

/** A plan that is wrong, or what kept the check from being made. */
export function reportPlanError(error: MeshwrightError, json: boolean): void {
  const problems = error instanceof PlanError ? error.problems : undefined
  if (json) {
    const list = problems ?? [errorDocument(error)]
    process.stdout.write(`${JSON.stringify({ schemaVersion: 1, ok: false, errors: list }, null, 2)}\n`)
    return
  }
  const message = placedMessage(error)
  const lines = problems?.map(formatProblem) ?? [
    error.hint === undefined ? message : `${message}; ${error.hint}`,
  ]
  for (const line of lines) process.stdout.write(`${paint.red('✗')} ${line}\n`)
}

function checkLines(report: CheckReport): string[] {
  const { model, plan, program, verification, rankBytes } = report
  const stages = plan.stages.map(
    (stage) => `${stage.layers}${stage.replicas > 1 ? ` x ${stage.replicas}` : ''}`,
  )
  const layout = layoutLine(plan)
  const lines = [
    `${paint.bold(report.source)}: ${model.name} on ${counted(plan.ranks.length, 'rank')}`,
    `stages of ${runLengths(stages)} layers (x replicas), ${counted(plan.microbatches, 'micro-batch', 'micro-batches')} of ${counted(plan.samplesPerMicrobatch, 'sample')} of ${plan.sequence} tokens`,
    ...(layout === undefined ? [] : [layout]),
    `${program.roles.length} roles, ${program.tasks.length} tasks, ${program.roles.reduce((sum, role) => sum + role.code.length, 0)} instructions`,
    `static arena: ${formatBytes(Math.max(...rankBytes))} on the fullest rank, ${formatBytes(Math.min(...rankBytes))} on the emptiest`,
    '',
  ]
  for (const { name, promise } of invariants) {
    const mark = verification.proven.includes(name)
      ? paint.green('✓')
      : verification.skipped.includes(name)
        ? paint.dim('–')
        : paint.red('✗')
    const unasked = name === 'memory' && report.plan.deviceBytes === null ? ' (the plan gives none)' : ''
    lines.push(`${mark} ${promise}${unasked}`)
  }
  for (const finding of verification.findings)
    lines.push('', ...formatFinding(program, finding, { mark: (text) => paint.red(text) }))
  if (report.run !== undefined) lines.push('', ...runLines(report.run))
  return lines
}

/** Equal neighbours once, with how many there are. */
function runLengths(items: readonly string[]): string {
  const runs: { item: string; count: number }[] = []
  for (const item of items) {
    const last = runs.at(-1)
    if (last?.item === item) last.count++
    else runs.push({ item, count: 1 })
  }
  return runs
    .map(({ item, count }) => (count > 3 ? `${item} (${count} times)` : Array(count).fill(item).join(' | ')))
    .join(' | ')
}

function runLines(run: RunReport): string[] {
  const lines: string[] = []
  if (run.miniature !== undefined) {
    const { model, ranks, why } = run.miniature
    lines.push(`ran as its miniature, ${model} on ${counted(ranks, 'rank')}: ${why}; this hides:`)
    lines.push(...run.miniature.hides.map((sentence) => `  ${sentence}`), '')
  }
  const rows = run.differences.map(({ kind, count, step, worst, equal }) => [
    equal ? '✓' : '✗',
    kind,
    String(count),
    formatError(worst.error),
    String(step + 1),
    worst.index.length === 0 ? worst.name : `${worst.name}[${worst.index.join(', ')}]`,
  ])
  lines.push(
    `plan against serial training in float64, ${counted(run.steps, 'step')}, equal to ${run.tolerance}:`,
    ...table(['', 'what', 'tensors', 'worst', 'step', 'where'], rows),
  )
  for (const { kind, worst, equal } of run.differences)
    if (!equal)
      lines.push(paint.red(`${kind} differs: ${worst.name} is ${worst.actual}, serially ${worst.expected}`))
  return lines
}

function checkDocument(report: CheckReport): Record<string, unknown> {
  const { model, plan, program, verification, run } = report
  return {
    schemaVersion: 1,
    ok: report.ok,
    source: report.source,
    model: model.name,
    ranks: plan.ranks,
    stages: plan.stages,
    rankBytes: report.rankBytes,
    roles: program.roles.length,
    tasks: program.tasks.length,
    proven: verification.proven,
    skipped: verification.skipped,
    findings: verification.findings.map((finding) => ({
      ...finding,
      text: formatFinding(program, finding),
    })),
    ...(run === undefined ? {} : { run }),
  }
}
