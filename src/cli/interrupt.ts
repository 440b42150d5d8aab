/** What Ctrl-C and a polite kill do while something long runs. */
export interface Interrupts {
  /** Whether one came. */
  readonly asked: () => boolean
  /** Back to the default behaviour. */
  readonly release: () => void
}

/** The first interrupt calls `onFirst`, a second one `onSecond`. */
export function catchInterrupts(onFirst: () => void, onSecond: () => void): Interrupts {
  let count = 0
  const handle = (): void => {
    count++
    if (count === 1) onFirst()
    else if (count === 2) onSecond()
  }
  process.on('SIGINT', handle)
  process.on('SIGTERM', handle)
  return {
    asked: () => count > 0,
    release: () => {
      process.off('SIGINT', handle)
      process.off('SIGTERM', handle)
    },
  }
}
