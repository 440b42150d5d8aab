import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import { exitCodes, MeshwrightError } from '../src/base/index.ts'
import type { ProductSizes } from './types.ts'

export type Command =
  | { readonly run: string; readonly steps: number }
  | { readonly memory: true }
  | MultiplyCommand

/** One [m, k] x [k, n] product in f32, `multiply` times. */
export interface MultiplyCommand {
  readonly multiply: number
  readonly sizes: ProductSizes
}

/** What either side says after it ran steps. */
export interface RunAnswer {
  readonly seconds: readonly number[]
  readonly losses: readonly number[]
  /** Ours only: seconds inside tasks, of the rank where they are most. */
  readonly compute?: readonly number[]
}

const answerMark = '@'
/** Starting torchrun on a loaded machine takes long. */
const answerSeconds = 180
const keptStderr = 4000

/**
 * One side of a comparison: a process of its own that waits on standard input while the other side runs, reads one JSON
 * command a line, and answers with one line that starts with "@". What else it prints is not for us.
 */
export class Side {
  readonly name: string
  private readonly child: ChildProcess
  private readonly lines: Interface
  private readonly waiting: ((line: string | undefined) => void)[] = []
  private readonly answers: string[] = []
  private stderr = ''
  private ended = false

  private constructor(name: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.name = name
    this.child = spawn(command, [...args], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.lines = createInterface({ input: this.child.stdout! })
    this.lines.on('line', (line) => {
      if (!line.startsWith(answerMark)) return
      const next = this.waiting.shift()
      if (next === undefined) this.answers.push(line)
      else next(line)
    })
    this.child.stderr!.on('data', (data: Buffer) => {
      this.stderr = (this.stderr + data.toString()).slice(-keptStderr)
    })
    this.child.stdin!.on('error', () => {})
    const end = (): void => {
      this.ended = true
      for (const next of this.waiting.splice(0)) next(undefined)
    }
    this.child.on('error', end)
    this.child.on('close', end)
  }

  /** Starts it and waits for its first answer, which says what it is. */
  static async start<T>(
    name: string,
    command: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv,
  ): Promise<{ readonly side: Side; readonly hello: T }> {
    const side = new Side(name, command, args, env)
    try {
      return { side, hello: (await side.answer()) as T }
    } catch (error) {
      await side.stop()
      throw error
    }
  }

  ask(command: { readonly run: string; readonly steps: number }): Promise<RunAnswer>
  ask(command: { readonly memory: true }): Promise<{ readonly bytes: number | null }>
  ask(command: MultiplyCommand): Promise<{ readonly seconds: readonly number[] }>
  ask(command: Command): Promise<unknown> {
    this.child.stdin!.write(`${JSON.stringify(command)}\n`)
    return this.answer()
  }

  /** Lets it end by itself, then ends it. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null || this.child.pid === undefined) return
    const closed = new Promise((resolve) => this.child.once('close', resolve))
    this.child.stdin!.end()
    // torchrun hands SIGTERM on to its workers; it would leave them behind if it were killed.
    const terminate = setTimeout(() => this.child.kill('SIGTERM'), 10_000)
    const kill = setTimeout(() => this.child.kill('SIGKILL'), 45_000)
    await closed
    clearTimeout(terminate)
    clearTimeout(kill)
  }

  private async answer(): Promise<unknown> {
    const line = this.answers.shift() ?? (this.ended ? undefined : await this.nextLine())
    if (line !== undefined) return JSON.parse(line.slice(answerMark.length))
    throw new MeshwrightError('BENCH_SIDE_ENDED', `${this.name} gave no answer: ${this.stderr.trim()}`, {
      exitCode: exitCodes.run,
    })
  }

  private nextLine(): Promise<string | undefined> {
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        this.stderr += ` (nothing for ${answerSeconds} s)`
        resolve(undefined)
      }, answerSeconds * 1000)
      this.waiting.push((line) => {
        clearTimeout(late)
        resolve(line)
      })
    })
  }
}
