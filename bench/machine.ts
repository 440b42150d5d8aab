import { cpus, loadavg, release, totalmem, type } from 'node:os'
import type { Report } from './types.ts'

/** What the figures were measured on. To be asked before anything runs: it tells how busy the machine was. */
export function describeMachine(): Report['machine'] {
  const processors = cpus()
  return {
    processor: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryBytes: totalmem(),
    system: `${type()} ${release()} ${process.arch}`,
    load: loadavg()[0] ?? 0,
  }
}
