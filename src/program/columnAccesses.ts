import type { InstructionColumns } from './types.ts'

/** Kinds as the columns number them. */
export const columnKinds = { run: 0, exchange: 1, collective: 2, move: 3, free: 4 } as const

export const columnAccess = { read: 0, write: 1, update: 2 } as const

/**
 * What `valueAccesses` lists, straight from the columns: for those that walk millions of instructions. `region` is -1
 * for the whole; `access` one of `columnAccess`.
 */
export function visitColumnAccesses(
  code: InstructionColumns,
  index: number,
  visit: (value: number, region: number, access: number) => void,
): void {
  const { operands } = code
  const at = code.start[index]!
  const end = code.start[index + 1]!
  switch (code.kind[index]!) {
    case columnKinds.run: {
      const readsEnd = at + 2 + 2 * operands[at + 1]!
      for (let place = at + 2; place < readsEnd; place += 2)
        visit(operands[place]!, operands[place + 1]! - 1, columnAccess.read)
      for (let place = readsEnd; place < end; place += 3)
        visit(
          operands[place]!,
          operands[place + 1]! - 1,
          operands[place + 2] === 1 ? columnAccess.update : columnAccess.write,
        )
      return
    }
    case columnKinds.exchange:
      for (let place = at; place < end; place += 5)
        visit(
          operands[place + 2]!,
          operands[place + 3]! - 1,
          operands[place] === 1 ? columnAccess.write : columnAccess.read,
        )
      return
    case columnKinds.collective:
      for (let place = at + 5; place < end; place += 5) {
        const [value, region] = [operands[place]!, operands[place + 1]!]
        const [result, resultRegion] = [operands[place + 2]!, operands[place + 3]!]
        if (value === result && region === resultRegion) visit(value, region - 1, columnAccess.update)
        else {
          visit(value, region - 1, columnAccess.read)
          visit(
            result,
            resultRegion - 1,
            operands[place + 4] === 1 ? columnAccess.update : columnAccess.write,
          )
        }
      }
      return
    case columnKinds.move:
      visit(operands[at + 2]!, -1, operands[at] === 1 ? columnAccess.read : columnAccess.write)
      return
  }
}
