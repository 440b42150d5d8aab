/** Where in a person's input something is wrong. Lines and columns count from 1. */
export interface SourcePosition {
  readonly file?: string
  readonly line?: number
  readonly column?: number
  /** Dotted path inside a document, e.g. `mesh.pipeline`. */
  readonly path?: string
}

/** Exit codes of the command line, also used by errors that must end it. */
export const exitCodes = {
  ok: 0,
  unexpected: 1,
  /** Usage, unreadable or invalid input. */
  input: 2,
  /** No feasible plan. */
  infeasible: 3,
  /** `check` read the input and found errors in it. */
  findings: 4,
  /** A run failed. */
  run: 5,
  interrupted: 130,
} as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

export interface ErrorDetails {
  readonly at?: SourcePosition
  /** What would be right, as one sentence a person can act on. */
  readonly hint?: string
  readonly exitCode?: ExitCode
  readonly cause?: unknown
}

/**
 * The one error type for mistakes a person can act on. `code` is stable and in capitals (`PLAN_UNKNOWN_KEY`);
 * anything that is our own fault is a plain `Error` whose message starts with `internal:`.
 */
export class MeshwrightError extends Error {
  override readonly name = 'MeshwrightError'
  readonly code: string
  readonly at: SourcePosition | undefined
  readonly hint: string | undefined
  readonly exitCode: ExitCode

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.at = details.at
    this.hint = details.hint
    this.exitCode = details.exitCode ?? exitCodes.input
  }
}

/** `plan.yaml:3:7`, or as much of it as is known. */
export function formatPosition(at: SourcePosition): string {
  const place = [at.file, at.line, at.column].filter((part) => part !== undefined).join(':')
  return [place, at.path].filter((part) => part !== undefined && part !== '').join(' ')
}

/** An impossible state: our mistake, never the user's. */
export function internalError(message: string): Error {
  return new Error(`internal: ${message}`)
}

/** Ends an exhaustive switch. */
export function assertNever(value: never): never {
  throw internalError(`unexpected ${JSON.stringify(value)}`)
}
