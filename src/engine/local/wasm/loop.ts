import type { FunctionWriter, Local } from './encoder.ts'

/** A pointer that a loop moves on, and the bytes of one of its elements. */
export interface Pointer {
  readonly local: Local
  readonly bytes: number
}

/**
 * While at least `step` of the count in `remaining` are left: runs `body`, moves every pointer on by `step` elements
 * and lowers `remaining`. What is left afterwards is for the next loop. The body may branch out with depth 2.
 */
export function countedLoop(
  writer: FunctionWriter,
  remaining: Local,
  step: number,
  pointers: readonly Pointer[],
  body: () => void,
): void {
  const another = (): void => {
    writer.get(remaining)
    writer.i32(step)
    writer.op('i32.ge_u')
  }
  another()
  writer.when(() => {
    writer.loop(() => {
      body()
      for (const { local, bytes } of pointers) advance(writer, local, step * bytes)
      advance(writer, remaining, -step)
      another()
      writer.branchIf(0)
    })
  })
}

/** local += by */
export function advance(writer: FunctionWriter, local: Local, by: number): void {
  writer.get(local)
  writer.i32(by)
  writer.op('i32.add')
  writer.set(local)
}
