import { assertNever, formatPosition, type MeshwrightError } from '../../base/index.ts'
import { type Action, formatCsvEntry } from '../../schedule/index.ts'
import { errorDocument } from '../errors.ts'
import { counted } from '../format.ts'
import { paint } from '../style.ts'
import { type Finding, findingLimit, type Verdict } from './verdict.ts'

export function verdictLines(verdict: Verdict): string[] {
  const { source, findings, complete, runs } = verdict
  const mark = (good: boolean): string => (good ? paint.green('✓') : paint.red('✗'))
  const lines = [`${paint.bold(source)}: ${describeForm(verdict)}`, ...describeShape(verdict)]
  if (complete !== null) lines.push(`${mark(complete)} every action once, on the rank of its stage`)
  if (runs !== null) lines.push(`${mark(runs)} ${runsSentence(verdict)}`)
  else if (complete !== null)
    lines.push(`${paint.dim('–')} ${runsSentence(verdict)} (only asked of a complete schedule)`)
  for (const finding of findings) lines.push('', ...findingLines(finding))
  if (findings.length === findingLimit)
    lines.push('', `these are the first ${findingLimit} findings; there may be more`)
  return lines
}

function describeForm({ form, communications }: Verdict): string {
  switch (form.kind) {
    case 'generator':
      return 'made by a generator'
    case 'text':
      return "Meshwright's text form"
    case 'csv': {
      const letters = form.letters === '2024' ? ', letters of 2024 (B is I here, BW the whole backward)' : ''
      const dialect =
        form.dialect === 'compute' ? 'computations only' : `with ${counted(communications, 'communication')}`
      return `PyTorch's CSV, ${dialect}${letters}`
    }
    default:
      return assertNever(form)
  }
}

function describeShape({ schedule, actions }: Verdict): string[] {
  if (schedule === undefined) return []
  const { actors, stages, microbatches } = schedule
  return [
    `${counted(stages, 'stage')} on ${counted(actors.length, 'rank')}, ${counted(microbatches, 'micro-batch', 'micro-batches')}, ${counted(actions, 'action')}`,
  ]
}

function runsSentence({ form }: Verdict): string {
  return form.kind === 'csv' && form.dialect === 'communication'
    ? 'transfers match and arrive in order, and all runs to its end even where a send waits for its receive'
    : 'runs to its end, whatever the times and whether sends are buffered or wait'
}

function findingLines({ code, message, hint, grid }: Finding): string[] {
  return [
    `${paint.red('✗')} ${paint.dim(code)} ${message}`,
    ...(hint === undefined ? [] : [`  ${paint.cyan('hint')} ${hint}`]),
    ...(grid ?? []).map((line) => `  ${line.replaceAll(/>[^<]*</g, (place) => paint.red(place))}`),
  ]
}

export function verdictDocument({ schedule, findings, ...rest }: Verdict): Record<string, unknown> {
  const { form, ...counts } = rest
  return {
    schemaVersion: 1,
    ok: findings.length === 0,
    ...counts,
    form: form.kind,
    ...(form.kind === 'csv' ? { dialect: form.dialect, letters: form.letters } : {}),
    ...(schedule === undefined
      ? {}
      : {
          ranks: schedule.actors.length,
          stages: schedule.stages,
          microbatches: schedule.microbatches,
          placement: schedule.placement,
        }),
    findings: findings.map(findingDocument),
  }
}

function findingDocument({ action, waitsFor, cycle, ...finding }: Finding): Record<string, unknown> {
  const text = (key: string, value: Action | undefined): Record<string, string> =>
    value === undefined ? {} : { [key]: formatCsvEntry(value) }
  return {
    ...finding,
    ...text('action', action),
    ...text('waitsFor', waitsFor),
    ...(cycle === undefined
      ? {}
      : {
          cycle: cycle.map((stuck) => ({
            actor: stuck.actor,
            index: stuck.index,
            ...text('action', stuck.action),
            ...text('waitsFor', stuck.waitsFor),
          })),
        }),
  }
}

/** One annotation for each finding, with the grid in it. */
export function githubLines({ source, findings }: Verdict): string[] {
  if (findings.length === 0) return [`${source}: complete, and runs to its end`]
  return findings.map(({ code, message, hint, grid = [] }) =>
    annotation({ file: source, title: code }, [message, ...(hint === undefined ? [] : [hint]), ...grid]),
  )
}

export function githubError(error: MeshwrightError): string {
  const { at = {}, code, message, hint } = error
  const place = {
    ...(at.file === undefined ? {} : { file: at.file }),
    ...(at.line === undefined ? {} : { line: String(at.line) }),
    ...(at.column === undefined ? {} : { col: String(at.column) }),
  }
  const shown = at.file === undefined && at.path !== undefined ? `${formatPosition(at)}: ${message}` : message
  return annotation({ ...place, title: code }, [shown, ...(hint === undefined ? [] : [hint])])
}

/** A workflow command of GitHub; what would end a value is escaped. */
function annotation(properties: Readonly<Record<string, string>>, lines: readonly string[]): string {
  const data = (text: string): string =>
    text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
  const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C')
  const list = Object.entries(properties).map(([key, value]) => `${key}=${property(value)}`)
  return `::error ${list.join(',')}::${data(lines.join('\n'))}`
}

export function errorReport(error: MeshwrightError): Record<string, unknown> {
  return { schemaVersion: 1, ok: false, errors: [errorDocument(error)] }
}
