import { cpus, loadavg, release, totalmem, type } from 'node:os'

/** What figures were measured on. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memoryBytes: number
  readonly system: string
  /** Processes that wanted to run in the minute before. */
  readonly load: number
}

/** To be asked before anything runs: it tells how busy the machine was. */
export function describeMachine(): Machine {
  const processors = cpus()
  return {
    processor: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryBytes: totalmem(),
    system: `${type()} ${release()} ${process.arch}`,
    load: loadavg()[0] ?? 0,
  }
}

/** What to say where others want the machine too, so that times would mean little; undefined where they do not. */
export function loadWarning({ load }: Pick<Machine, 'load'>): string | undefined {
  return load > 0.5
    ? `the machine is busy (load ${load.toFixed(2)}): times will be too long, and unsteady`
    : undefined
}

/**
 * Watches who else computes from now on: the function returned says how many cores, on average since then, were used by
 * other processes. Zero where the system does not count.
 */
export function watchOthers(): () => number {
  const busyBefore = busyMilliseconds()
  const ownBefore = process.cpuUsage()
  const began = performance.now()
  return () => {
    const own = process.cpuUsage(ownBefore)
    const others = busyMilliseconds() - busyBefore - (own.user + own.system) / 1000
    return Math.max(0, others / (performance.now() - began))
  }
}

function busyMilliseconds(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0)
}
