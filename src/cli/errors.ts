import { exitCodes, formatPosition, MeshwrightError } from '../base/index.ts'
import { paint } from './style.ts'

/**
 * Says on standard error what was wrong, where, and what would be right; returns the exit code. Only our own mistakes
 * show a stack.
 */
export function reportError(error: unknown): number {
  if (!(error instanceof MeshwrightError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    process.stderr.write(`${paint.red('unexpected failure')}: ${text}\n`)
    process.stderr.write('This is a mistake of Meshwright, not of yours. A report with the command helps.\n')
    return exitCodes.unexpected
  }
  process.stderr.write(`${paint.red('error')} ${paint.dim(error.code)} ${placedMessage(error)}\n`)
  if (error.hint !== undefined) process.stderr.write(`  ${paint.cyan('hint')} ${error.hint}\n`)
  return error.exitCode
}

/** The message after its place, unless it names the place itself. */
export function placedMessage({ at, message }: MeshwrightError): string {
  const place = at === undefined ? '' : formatPosition(at)
  const named = at?.line === undefined && at?.file !== undefined && message.includes(at.file)
  return place === '' || named ? message : `${place}: ${message}`
}

/** The error as a member of a `--json` document. */
export function errorDocument(error: MeshwrightError): Record<string, unknown> {
  return {
    code: error.code,
    message: error.message,
    ...(error.at === undefined ? {} : { at: error.at }),
    ...(error.hint === undefined ? {} : { hint: error.hint }),
  }
}
