import { assertNever } from '../../base/index.ts'
import type { Fault } from './protocol.ts'

/** Makes this worker fail as the test asks. */
export function injectFault(fault: Fault): never {
  switch (fault.kind) {
    case 'throw':
      throw new Error('this fault was asked for')
    case 'exit':
      // In a worker this ends the thread, not the process.
      return process.exit(7)
    case 'hang': {
      const nobody = new Int32Array(new SharedArrayBuffer(4))
      for (;;) Atomics.wait(nobody, 0, 0)
    }
    default:
      return assertNever(fault.kind)
  }
}
