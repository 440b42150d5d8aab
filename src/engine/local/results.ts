import { collectiveCountLength } from '../counters.ts'
import { collectiveCountsByte, resultWords, stepStartByte } from './hostLayout.ts'
import type { WasmMemory } from './wasm/index.ts'

export type StepResults = { readonly [K in keyof typeof resultWords]: number }

export function writeResults(host: WasmMemory, at: number, results: StepResults): void {
  const numbers = new Float64Array(host.buffer, at, Object.keys(resultWords).length)
  for (const name of Object.keys(resultWords) as (keyof StepResults)[])
    numbers[resultWords[name]] = results[name]
}

export function readResults(host: WasmMemory, at: number): StepResults {
  const numbers = new Float64Array(host.buffer, at, Object.keys(resultWords).length)
  const names = Object.keys(resultWords) as (keyof StepResults)[]
  return Object.fromEntries(names.map((name) => [name, numbers[resultWords[name]]!])) as StepResults
}

/** Counts of collectives that a rank leaves with its results at `at`. */
export function collectiveNumbers(host: WasmMemory, at: number): Float64Array {
  return new Float64Array(host.buffer, at + collectiveCountsByte, collectiveCountLength)
}

/** Milliseconds on the one clock that all threads share. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** What to add to this thread's `performance.now()`: of several tries the one that least came between the two clocks. */
function clockOffset(): number {
  let offset = 0
  let least = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < 8; turn++) {
    const before = performance.now()
    const shared = sharedNow()
    const after = performance.now()
    if (after - before >= least) continue
    least = after - before
    offset = shared - (before + after) / 2
  }
  return offset
}

/**
 * Times of one rank's step. When tracing, keeps [instruction, start, end] triples in seconds since the step began.
 * A transfer starts when it is posted, or when the one before it on its stream ended, and ends when it is complete.
 */
export class StepClock {
  traced = 0
  private began = 0
  /** Milliseconds to add to `performance.now()` of this thread. */
  private readonly offset: number
  private readonly start: Float64Array
  private readonly triples: Float64Array | undefined
  private stepStart = 0
  private readonly posted = new Map<number, { readonly at: number; readonly stream: number }>()
  private readonly streamEnds = new Map<number, number>()

  /** `traceAt` is where this rank's triples go, with room for `instructions` of them. */
  constructor(host: WasmMemory, traceAt: number | undefined, instructions: number) {
    this.offset = clockOffset()
    this.start = new Float64Array(host.buffer, stepStartByte, 1)
    if (traceAt !== undefined) this.triples = new Float64Array(host.buffer, traceAt, 3 * instructions)
  }

  begin(): void {
    this.began = performance.now()
    this.stepStart = this.start[0]!
    this.traced = 0
    this.posted.clear()
    this.streamEnds.clear()
  }

  elapsed(): number {
    return performance.now() - this.began
  }

  postTransfer(instruction: number, stream: number): void {
    if (this.triples !== undefined) this.posted.set(instruction, { at: performance.now(), stream })
  }

  completeTransfer(instruction: number): void {
    const posted = this.posted.get(instruction)
    if (this.triples === undefined || posted === undefined) return
    const end = performance.now()
    this.record(instruction, Math.max(posted.at, this.streamEnds.get(posted.stream) ?? 0), end)
    this.streamEnds.set(posted.stream, end)
  }

  /** Both in this thread's milliseconds. */
  record(instruction: number, began: number, ended: number): void {
    if (this.triples === undefined) return
    const at = 3 * this.traced++
    this.triples[at] = instruction
    this.triples[at + 1] = (began + this.offset - this.stepStart) / 1000
    this.triples[at + 2] = (ended + this.offset - this.stepStart) / 1000
  }
}
