import { Worker } from 'node:worker_threads'
import { exitCodes, internalError, MeshwrightError } from '../../base/index.ts'
import type { Program, Role } from '../../program/index.ts'
import { diedError, hangError, runFailure } from './failure.ts'
import { globalWords } from './hostLayout.ts'
import { commands, type StateRequest, type WorkerReply, type WorkerSetup } from './protocol.ts'
import { abortReasons, activities, type Signals } from './signals.ts'

interface Pending {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** How long a worker that hangs may take to end before it is left alone. */
const graceMilliseconds = 1000

/** The workers of one engine: starts them, gives them one command at a time, and sees to it that none is left behind. */
export class Crew {
  /** What ended this crew; every later command is refused with it. */
  failure: MeshwrightError | undefined
  readonly workspaceBytes: number[] = []
  private readonly program: Program
  private readonly roles: readonly Role[]
  private readonly signals: Signals
  private readonly hangSeconds: number
  private readonly workers: Worker[] = []
  private readonly exits: Promise<unknown>[] = []
  private readonly alive: boolean[] = []
  private readonly crashes = new Map<number, string>()
  /** Ranks that have died or hang. */
  private readonly lost = new Set<number>()
  private pending: Pending | undefined
  private allLeft = false
  private watch: NodeJS.Timeout | undefined
  private stopping: Promise<void> | undefined

  constructor(program: Program, roles: readonly Role[], signals: Signals, hangSeconds: number) {
    this.program = program
    this.roles = roles
    this.signals = signals
    this.hangSeconds = hangSeconds
  }

  /** Resolves when every worker is ready; on a failure none is left. */
  async start(setups: readonly WorkerSetup[], file: URL): Promise<void> {
    const started = setups.map((setup) => this.startWorker(setup, file))
    const results = await Promise.allSettled(started)
    const refused = results.find((result) => result.status === 'rejected')
    if (refused === undefined) return
    await this.stop()
    throw refused.reason
  }

  /** Runs one command on all ranks. Rejects when any of them fails, after all others have left it. */
  command(kind: number, prepare?: (rank: number) => StateRequest): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    if (this.stopping !== undefined) return Promise.reject(stoppedError())
    if (this.pending !== undefined) return Promise.reject(internalError('a command while another runs'))
    return new Promise((resolve, reject) => {
      this.pending = { resolve, reject }
      this.allLeft = false
      if (prepare !== undefined)
        this.workers.forEach((worker, rank) => {
          worker.postMessage(prepare(rank))
        })
      this.issue(kind)
      if (kind === commands.step) this.watchProgress()
    })
  }

  /** Ends the command under way and all workers; safe at any time and any number of times. */
  stop(): Promise<void> {
    this.stopping ??= this.end()
    return this.stopping
  }

  private issue(kind: number): void {
    const { words } = this.signals
    Atomics.store(words, globalWords.command, kind)
    Atomics.store(words, globalWords.finished, 0)
    Atomics.add(words, globalWords.generation, 1)
    this.signals.ringAll()
  }

  private startWorker(setup: WorkerSetup, file: URL): Promise<void> {
    const { rank } = setup
    return new Promise((resolve, reject) => {
      const worker = new Worker(file, { workerData: setup, execArgv: [], name: `rank ${rank}` })
      this.workers[rank] = worker
      this.alive[rank] = true
      this.exits[rank] = new Promise((exited) => {
        worker.once('exit', (code) => {
          this.alive[rank] = false
          exited(code)
          const cause = this.crashes.get(rank) ?? `exit code ${code}`
          this.died(rank, cause)
          // Of no effect where it had become ready.
          reject(this.failure ?? stoppedError())
        })
      })
      worker.on('error', (error) => this.crashes.set(rank, error.message))
      worker.on('message', (message: WorkerReply) => {
        switch (message.kind) {
          case 'ready':
            this.workspaceBytes[rank] = message.workspaceBytes
            resolve()
            break
          case 'refused': {
            const { report } = message
            const { code, hint, exitCode } = report
            // What is wrong with the machine or the plan is not one rank's matter.
            if (code.startsWith('ENGINE_'))
              reject(
                new MeshwrightError(code, report.message, {
                  ...(hint === undefined ? {} : { hint }),
                  ...(exitCode === undefined ? {} : { exitCode }),
                }),
              )
            else reject(runFailure(this.program, this.roles, rank, report))
            break
          }
          case 'failed':
            this.fail(runFailure(this.program, this.roles, rank, message.report))
            break
          case 'left':
            this.leftAll()
            break
        }
      })
    })
  }

  /** Keeps the first failure. */
  private fail(error: MeshwrightError): void {
    this.failure ??= error
    this.settle()
  }

  private leftAll(): void {
    this.allLeft = true
    this.settle()
  }

  /** Answers the command when all ranks have left it and, if one failed, its report has come. */
  private settle(): void {
    if (!this.allLeft || this.pending === undefined) return
    const { words } = this.signals
    const failed = Atomics.load(words, globalWords.failedRank) !== 0
    if (failed && this.failure === undefined) return
    const { resolve, reject } = this.pending
    this.pending = undefined
    clearInterval(this.watch)
    if (this.failure !== undefined) reject(this.failure)
    else if (this.signals.aborted) reject(stoppedError())
    else resolve()
  }

  /** A worker has ended. Unless it was told to, that is a failure. */
  private died(rank: number, cause: string): void {
    if (this.stopping !== undefined && this.pending === undefined) return
    const { signals } = this
    const instruction = this.pending === undefined ? undefined : signals.instruction(rank)
    if (signals.claimFailure(rank)) this.fail(diedError(this.program, this.roles, rank, instruction, cause))
    this.leaveFor(rank)
  }

  /** Takes the place of a rank that will not leave by itself. */
  private leaveFor(rank: number): void {
    this.lost.add(rank)
    this.signals.abort(abortReasons.failed)
    if (this.signals.leave()) this.leftAll()
  }

  /** Ends a step in which nothing has moved for too long, and one that some rank does not leave. */
  private watchProgress(): void {
    const { signals } = this
    const ranks = this.roles.map((_, rank) => rank)
    const progress = (): string => ranks.map((rank) => signals.progress(rank)).join()
    let seen = progress()
    let since = performance.now()
    clearInterval(this.watch)
    this.watch = setInterval(
      () => {
        const unfinished = ranks.filter(
          (rank) => !this.lost.has(rank) && signals.activity(rank) !== activities.idle,
        )
        const waits = unfinished.some((rank) => signals.activity(rank) === activities.waiting)
        const now = progress()
        if (now !== seen || !(waits || signals.aborted)) {
          seen = now
          since = performance.now()
          return
        }
        if (performance.now() - since < this.hangSeconds * 1000) return
        since = performance.now()
        if (!signals.aborted) this.hung(unfinished)
        else for (const rank of unfinished) this.leaveFor(rank)
      },
      Math.max(10, this.hangSeconds * 250),
    )
  }

  private hung(unfinished: readonly number[]): void {
    const { signals } = this
    const { rank, error } = hangError(this.program, this.roles, signals, unfinished, this.hangSeconds)
    const waits = signals.activity(rank) === activities.waiting
    if (signals.claimFailure(rank)) this.fail(error)
    if (waits) signals.abort(abortReasons.failed)
    else this.leaveFor(rank)
  }

  private async end(): Promise<void> {
    const { pending } = this
    if (pending !== undefined) {
      this.signals.abort(abortReasons.stopped)
      await new Promise<void>((resolve) => {
        const both =
          <T extends unknown[]>(next: (...given: T) => void) =>
          (...given: T) => {
            next(...given)
            resolve()
          }
        this.pending = { resolve: both(pending.resolve), reject: both(pending.reject) }
      })
    }
    this.issue(commands.stop)
    await Promise.all(this.workers.map((_, rank) => this.endWorker(rank)))
  }

  private async endWorker(rank: number): Promise<void> {
    const exited = this.exits[rank]!
    if (this.lost.has(rank) && this.alive[rank] === true) {
      // It hangs. Inside ONNX Runtime it cannot be ended without taking the process along; elsewhere it can.
      let timer: NodeJS.Timeout | undefined
      const grace = new Promise((resolve) => {
        timer = setTimeout(resolve, graceMilliseconds)
      })
      await Promise.race([exited, grace])
      clearTimeout(timer)
      if (this.signals.activity(rank) === activities.native) {
        this.workers[rank]!.unref()
        return
      }
      await this.workers[rank]!.terminate()
    }
    await exited
  }
}

export function stoppedError(): MeshwrightError {
  return new MeshwrightError('RUN_STOPPED', 'the run was stopped', { exitCode: exitCodes.interrupted })
}
