import type { BufferSpec, PackEntry, Task } from '../../src/program/index.ts'

/** A number below `count`, or 0. */
export type Choose = (count: number) => number

/** A buffer that says something else of itself. */
export function changeBuffer(buffer: BufferSpec, choose: Choose): BufferSpec {
  const { sumOver: _, state: __, constant: ___, ...rest } = buffer
  switch (choose(3)) {
    case 0:
      return { ...rest, ...(buffer.state === true ? { state: true } : {}) }
    case 1:
      return { ...buffer, sumOver: 'data' }
    default:
      return { ...buffer, ...(buffer.constant === undefined ? {} : { constant: { isZero: [] } }) }
  }
}

/** A pack whose tensors are said to be others', or summed over nobody. */
export function changePack(buffer: BufferSpec, choose: Choose): BufferSpec {
  const pack = buffer.pack!
  const [a, b] = [choose(pack.length), choose(pack.length)]
  const [first, second] = [pack[a]!, pack[b]!]
  switch (choose(4)) {
    case 0: {
      const { sumOver: _, ...rest } = first
      return { ...buffer, pack: pack.with(a, rest) }
    }
    case 1:
      return { ...buffer, pack: pack.with(a, { ...first, owned: !first.owned }) }
    case 2:
      return { ...buffer, pack: pack.map(({ sumOver: _, ...entry }) => entry) }
    default: {
      const named = (entry: PackEntry, { name }: PackEntry): PackEntry => ({ ...entry, name })
      return { ...buffer, pack: pack.with(a, named(first, second)).with(b, named(second, first)) }
    }
  }
}

/** A task whose operands feed it otherwise. */
export function changeTask(task: Task, choose: Choose): Task {
  if (task.kind !== 'graph') return task
  const { reads, writes } = task
  const swapped = <T>(items: readonly T[]): T[] => {
    const [a, b] = [choose(items.length), choose(items.length)]
    return items.length === 0 ? [] : items.with(a, items[b]!).with(b, items[a]!)
  }
  switch (choose(4)) {
    case 0:
      return { ...task, reads: swapped(reads) }
    case 1:
      return { ...task, writes: swapped(writes) }
    case 2:
      return {
        ...task,
        reads: reads.map((port) => {
          if (port.kind !== 'pack') return port
          const offsets = swapped(port.entries.map(({ offset }) => offset))
          return {
            ...port,
            entries: port.entries.map((entry, index) => ({ ...entry, offset: offsets[index]! })),
          }
        }),
      }
    default:
      return {
        ...task,
        writes: writes.map((port) => {
          if (port.kind !== 'pack') return port
          if (choose(2) === 0) {
            const offsets = swapped(port.entries.map(({ offset }) => offset))
            return {
              ...port,
              entries: port.entries.map((entry, index) => ({ ...entry, offset: offsets[index]! })),
            }
          }
          const change = choose(3)
          return {
            ...port,
            rows: port.rows.map((rows) => {
              if (change === 0) return { ...rows, clears: !rows.clears }
              return change === 1
                ? { ...rows, ids: { read: choose(reads.length) } }
                : { ...rows, rows: rows.rows - 1 }
            }),
          }
        }),
      }
  }
}
