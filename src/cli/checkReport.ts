import type { MeshwrightError } from '../base/index.ts'
import { formatProblem, PlanError } from '../plan/index.ts'
import { formatFinding, invariants } from '../program/index.ts'
import type { CheckReport, RunReport } from './checkPlan.ts'
import { errorDocument } from './errors.ts'
import { formatBytes, formatError, table } from './format.ts'
import { paint } from './style.ts'

export function reportCheck(report: CheckReport, json: boolean): void {
  process.stdout.write(
    json ? `${JSON.stringify(checkDocument(report), null, 2)}\n` : `${checkLines(report).join('\n')}\n`,
  )
}

/** A plan that reads well and is wrong. */
export function reportPlanError(error: MeshwrightError, json: boolean): void {
  const problems = error instanceof PlanError ? error.problems : undefined
  if (json) {
    const list = problems ?? [errorDocument(error)]
    process.stdout.write(`${JSON.stringify({ schemaVersion: 1, ok: false, errors: list }, null, 2)}\n`)
    return
  }
  const lines = problems?.map(formatProblem) ?? [
    error.hint === undefined ? error.message : `${error.message}; ${error.hint}`,
  ]
  for (const line of lines) process.stdout.write(`${paint.red('✗')} ${line}\n`)
}

function checkLines(report: CheckReport): string[] {
  const { model, plan, program, verification, rankBytes } = report
  const stages = plan.stages.map(
    (stage) => `${stage.layers}${stage.replicas > 1 ? ` x ${stage.replicas}` : ''}`,
  )
  const lines = [
    `${paint.bold(report.source)}: ${model.name} on ${plan.ranks.length} ranks`,
    `stages of ${stages.join(' | ')} layers (x replicas), ${plan.microbatches} micro-batches of ${plan.samplesPerMicrobatch} samples of ${plan.sequence} tokens`,
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
    lines.push(`${mark} ${promise}`)
  }
  for (const finding of verification.findings)
    lines.push('', ...formatFinding(program, finding, { mark: (text) => paint.red(text) }))
  if (report.run !== undefined) lines.push('', ...runLines(report.run))
  return lines
}

function runLines(run: RunReport): string[] {
  const lines: string[] = []
  if (run.miniature !== undefined) {
    lines.push(`ran as its miniature: ${run.miniature.model} on ${run.miniature.ranks} ranks; this hides:`)
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
    `plan against serial training in float64, ${run.steps} steps, equal to ${run.tolerance}:`,
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
