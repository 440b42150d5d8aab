/** the built command, as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const commandFile: string = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly directory?: string
  readonly environment?: Readonly<Record<string, string>>
  readonly input?: string
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[]
  /** Another copy of the command. */
  readonly file?: string
  /** Called with the process and all that it has written to standard output so far, each time it writes. */
  readonly onOutput?: (process: ChildProcess, stdout: string) => void
}

/** Runs `meshwright ...words` in a process group of its own, and waits for it to end. */
export function meshwright(words: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const flags = [...(options.nodeFlags ?? []), options.file ?? commandFile, ...words]
  return runProcess(process.execPath, flags, options)
}

export function runProcess(
  program: string,
  words: readonly string[],
  options: Omit<RunOptions, 'nodeFlags' | 'file'> = {},
): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...words], {
      cwd: options.directory,
      detached: true,
      env: { ...plainEnvironment(), ...options.environment },
    })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      options.onOutput?.(child, stdout)
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
  })
}

/** Without what a test runner or a person's terminal sets. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const { NO_COLOR: _, FORCE_COLOR: __, NODE_OPTIONS: ___, NODE_V8_COVERAGE: ____, ...rest } = process.env
  return rest
}

/** Sends a signal to the process and all that it has started. */
export function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  process.kill(-child.pid!, signal)
}

/** Whether any process of the group is left. */
export function groupIsGone(child: ChildProcess): boolean {
  try {
    process.kill(-child.pid!, 0)
    return false
  } catch {
    return true
  }
}

/** The lines of NDJSON. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
