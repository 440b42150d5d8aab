import { exitCodes, MeshwrightError } from '../base/index.ts'

/** For messages. */
export function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`
}

/** There is no room on this machine: not a mistake in the plan, but it cannot run here. */
export function noMemoryError(message: string, hint: string, cause?: unknown): MeshwrightError {
  return new MeshwrightError('ENGINE_NO_MEMORY', message, {
    exitCode: exitCodes.infeasible,
    hint,
    ...(cause === undefined ? {} : { cause }),
  })
}

/**
 * What `make` gives, which takes `bytes` of memory for `what`.
 *
 * @throws MeshwrightError `ENGINE_NO_MEMORY` where neither the system nor JavaScript gives that much at once
 */
export function allocate<T>(bytes: number, what: string, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw noMemoryError(
      `the system does not give the ${gibibytes(bytes)} that ${what} needs`,
      'use a smaller model, or a machine with more memory',
      cause,
    )
  }
}
