import {
  type Instruction,
  operandElements,
  type Role,
  readInstructions,
  valueAccesses,
} from '../../src/program/index.ts'

/**
 * Walks a role's list with the value that every element of every slot holds, one by one, and says what is wrong first;
 * undefined when every read finds its own value, and no slot holds one at the end but state and constants.
 */
export function memoryProblem(role: Role): string | undefined {
  const elements = (pool: number): number => {
    const { shape } = role.buffers.find((buffer) => buffer.pool === pool)!
    return shape.reduce((product, size) => product * size, 1)
  }
  const slots = role.pools.map(({ slots: count }, pool) =>
    Array.from({ length: count }, () => new Array<number | undefined>(elements(pool)).fill(undefined)),
  )
  const rowsOf = (value: number): (number | undefined)[] | undefined => {
    const { buffer, slot } = role.values[value]!
    return slots[role.buffers[buffer]!.pool]![slot]
  }
  const isKept = (value: number): boolean => {
    const { state, constant } = role.buffers[role.values[value]!.buffer]!
    return state === true || constant !== undefined
  }
  const freed = new Set<number>()
  role.values.forEach((instance, value) => {
    if (isKept(value) && (instance.step ?? 0) === 0) rowsOf(value)?.fill(value)
  })
  const step = (instruction: Instruction): string | undefined => {
    if (instruction.kind === 'free') {
      for (const value of instruction.values) {
        const rows = rowsOf(value)
        if (isKept(value) || freed.has(value) || rows?.includes(value) !== true) return 'a free of nothing'
        freed.add(value)
        rows.forEach((owner, row) => {
          if (owner === value) rows[row] = undefined
        })
      }
      return undefined
    }
    const accesses = valueAccesses(instruction).map((access) => ({
      ...access,
      ...operandElements(role, access),
    }))
    for (const { value, kind, start, end } of accesses) {
      const rows = rowsOf(value)
      if (rows === undefined || start < 0 || end > rows.length) return 'a place that is not there'
      if (kind !== 'write' && !rows.slice(start, end).every((owner) => owner === value))
        return 'a read of something else'
    }
    for (const { value, kind, start, end } of accesses) {
      if (kind === 'read') continue
      const rows = rowsOf(value)!
      if (freed.has(value)) return 'a write after the end'
      if (isKept(value) && (role.values[value]!.step ?? 0) === 0) return 'a write over what is given'
      for (let row = start; row < end; row++) {
        const owner = rows[row]
        if (owner !== undefined && owner !== value && !isKept(value)) return 'a write over something else'
        rows[row] = value
      }
    }
    return undefined
  }
  for (const instruction of readInstructions(role.code)) {
    const problem = step(instruction)
    if (problem !== undefined) return problem
  }
  const left = slots.flat(2).some((owner) => owner !== undefined && !isKept(owner))
  return left ? 'a value left over' : undefined
}
