import { closeSync, fsyncSync, ftruncateSync, openSync } from 'node:fs'
import { writeFailure } from '../fileErrors.ts'
import { readFully, withFile, writeFully } from '../files.ts'

/** One line of the metrics file; numbers that JSON lacks (NaN, infinities) become null. */
export interface MetricsRecord {
  readonly step: number
  readonly [name: string]: unknown
}

/** The metrics file of a run: NDJSON, one record a line, each line written whole. */
export class MetricsFile {
  readonly path: string
  #descriptor: number | undefined

  /** @param descriptor open for appending; this object closes it */
  constructor(path: string, descriptor: number) {
    this.path = path
    this.#descriptor = descriptor
  }

  append(record: MetricsRecord): void {
    if (this.#descriptor === undefined) return
    try {
      writeFully(this.#descriptor, new TextEncoder().encode(`${JSON.stringify(record)}\n`))
    } catch (cause) {
      throw writeFailure(this.path, cause)
    }
  }

  /** Makes the lines so far last through a power failure; for use before a checkpoint is written. */
  sync(): void {
    if (this.#descriptor === undefined) return
    try {
      fsyncSync(this.#descriptor)
    } catch (cause) {
      throw writeFailure(this.path, cause)
    }
  }

  /** Later appends do nothing. */
  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}

/**
 * Opens `path` for appending. A new run (`keepThroughStep` undefined) starts with an empty file; a resumed one keeps
 * the lines up to and including that step, and drops what a killed run wrote after it or left half written.
 *
 * @throws MeshwrightError `DATA_*` when the file cannot be written
 */
export function openMetrics(path: string, keepThroughStep?: number): MetricsFile {
  try {
    const descriptor = openSync(path, 'a')
    try {
      ftruncateSync(descriptor, keepThroughStep === undefined ? 0 : keptBytes(path, keepThroughStep))
    } catch (cause) {
      closeSync(descriptor)
      throw cause
    }
    return new MetricsFile(path, descriptor)
  } catch (cause) {
    throw writeFailure(path, cause)
  }
}

const blockBytes = 2 ** 20
const newline = 0x0a

/** How many bytes from the start are whole lines before the first one of a step after `lastStep`. */
function keptBytes(path: string, lastStep: number): number {
  return withFile(path, 'metrics file', (descriptor) => {
    const decoder = new TextDecoder()
    let kept = 0
    let size = blockBytes
    for (;;) {
      const block = new Uint8Array(size)
      const bytes = block.subarray(0, readFully(descriptor, block, kept))
      let start = 0
      for (;;) {
        const end = bytes.indexOf(newline, start)
        if (end === -1) break
        const step = stepOfLine(decoder.decode(bytes.subarray(start, end)))
        if (step !== undefined && step > lastStep) return kept + start
        start = end + 1
      }
      kept += start
      if (bytes.byteLength < size) return kept
      // No line ended in a full block: look at more at once.
      if (start === 0) size *= 2
    }
  })
}

function stepOfLine(line: string): number | undefined {
  try {
    const record: unknown = JSON.parse(line)
    if (typeof record !== 'object' || record === null || !('step' in record)) return undefined
    return typeof record.step === 'number' ? record.step : undefined
  } catch {
    return undefined
  }
}
