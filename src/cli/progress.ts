import { formatSeconds } from './format.ts'

/**
 * Progress on standard error: one line that rewrites itself on a terminal, a line now and then elsewhere. `update` gives
 * the fraction done and a text; the time left is estimated from the pace so far.
 */
export class Progress {
  private readonly label: string
  private readonly terminal = process.stderr.isTTY === true
  private started = performance.now()
  private printed = Number.NEGATIVE_INFINITY
  private width = 0

  /** `quiet`: but for a terminal, nothing is written before the first pause is over. */
  constructor(label: string, quiet = false) {
    this.label = label
    if (quiet && !this.terminal) this.printed = this.started
  }

  update(fraction: number, text: string): void {
    const now = performance.now()
    const pause = this.terminal ? 80 : 5000
    if (now - this.printed < pause && fraction < 1) return
    this.printed = now
    const elapsed = (now - this.started) / 1000
    const left =
      fraction > 0 && fraction < 1 ? `, ${formatSeconds((elapsed / fraction) * (1 - fraction))} left` : ''
    const line = `${this.label}  ${text}${left}`
    if (!this.terminal) {
      process.stderr.write(`${line}\n`)
      return
    }
    const fitted = line.slice(0, Math.max(20, (process.stderr.columns ?? 100) - 1))
    process.stderr.write(`\r${fitted.padEnd(this.width)}`)
    this.width = fitted.length
  }

  /** Leaves the line as it is and goes to the next. */
  end(): void {
    if (this.terminal && this.width > 0) process.stderr.write('\n')
    this.width = 0
    this.started = performance.now()
  }

  /** Takes the line away. */
  clear(): void {
    if (this.terminal && this.width > 0) process.stderr.write(`\r${' '.repeat(this.width)}\r`)
    this.width = 0
  }
}
