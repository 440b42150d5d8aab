import { exitCodes, internalError, MeshwrightError } from '../../base/index.ts'
import { elementCount, emptyData, type TensorData } from '../../graph/index.ts'
import {
  type BufferSpec,
  type Coordinates,
  constantValue,
  coordinatesOf,
  formatOperand,
  formatValue,
  heldRanges,
  maySharePool,
  type Operand,
  type Program,
  type ProgramMesh,
  type Role,
  type ValueInstance,
  type ValueRef,
} from '../../program/index.ts'

/** One slot of a pool: its elements, and for each of them the value that it belongs to (-1: to none). */
interface Slot {
  readonly data: TensorData
  readonly owners: Int32Array
}

/** Elements of one slot. */
export interface Range {
  readonly buffer: number
  readonly pool: number
  readonly slot: number
  readonly start: number
  readonly end: number
}

const nobody = -1

/**
 * The buffers of one rank, floats in float64, with a record of whose every element is. All rules about values are
 * kept here: read only what was written and not freed, write only over what nothing needs any more.
 */
export class RankMemory {
  private readonly role: Role
  /** By pool. */
  private readonly slots: readonly (readonly Slot[])[]
  /** For each buffer with a pack: 1 where no entry lies. Padding belongs to nobody and may always be read, as zeros. */
  private readonly padding: readonly (Uint8Array | undefined)[]
  private readonly freed = new Set<ValueRef>()

  constructor(program: Program, role: Role, rank: number) {
    this.role = role
    this.slots = role.pools.map(({ slots }, pool) => {
      const [first, ...others] = role.buffers.filter((spec) => spec.pool === pool)
      if (first === undefined) return []
      if (others.some((other) => !maySharePool(first, other)))
        throw internalError(`the buffers of pool ${pool} of role ${role.name} cannot share it`)
      const elements = Math.max(...[first, ...others].map(({ shape }) => elementCount(shape)))
      return Array.from({ length: Math.max(1, slots) }, () => ({
        data: emptyData(first.dtype, elements),
        owners: new Int32Array(elements).fill(nobody),
      }))
    })
    const own = coordinatesOf(program.mesh, rank)
    this.padding = role.buffers.map((spec) => paddingOf(spec, program.mesh, own))
    role.buffers.forEach((spec) => {
      if (spec.constant === undefined) return
      const value = constantValue(spec.constant, program.mesh, own)
      for (const slot of this.slots[spec.pool]!) slot.data.fill(value)
    })
  }

  /** State is there, everything else is not. */
  beginStep(): void {
    this.freed.clear()
    for (const slots of this.slots) for (const slot of slots) slot.owners.fill(nobody)
    this.role.values.forEach((instance, value) => {
      const spec = this.role.buffers[instance.buffer]!
      if (spec.constant === undefined && !(spec.state === true && (instance.step ?? 0) <= 0)) return
      this.slots[spec.pool]![instance.slot]!.owners.fill(value)
    })
  }

  /** What the step leaves becomes what the next one reads. */
  endStep(): void {
    const later = this.role.values
      .map((instance, value) => ({ instance, value }))
      .filter(
        ({ instance }) => (instance.step ?? 0) > 0 && this.role.buffers[instance.buffer]!.state === true,
      )
      .sort((a, b) => a.instance.step! - b.instance.step!)
    for (const { instance, value } of later) {
      const slots = this.slots[this.role.buffers[instance.buffer]!.pool]!
      this.requireWritten({ value }, this.whole(instance), 'leaves')
      const left = slots[instance.slot]!.data.slice()
      // The newest may lie where the oldest was.
      for (let age = this.oldest(instance.buffer); age > 0; age--)
        slots[this.homeSlot(instance.buffer, -age)]!.data.set(
          slots[this.homeSlot(instance.buffer, 1 - age)]!.data,
        )
      slots[this.homeSlot(instance.buffer, instance.step! - 1)]!.data.set(left)
    }
  }

  /** Before the first step all versions of a state are the one that was given. */
  spreadState(): void {
    this.role.buffers.forEach((spec, buffer) => {
      if (spec.state !== true) return
      const slots = this.slots[spec.pool]!
      for (let age = this.oldest(buffer); age > 0; age--)
        slots[this.homeSlot(buffer, -age)]!.data.set(this.state(buffer))
    })
  }

  /** By how many steps the oldest version of a state buffer that instructions name is older than the present one. */
  private oldest(buffer: number): number {
    return this.role.values.reduce(
      (age, instance) => (instance.buffer === buffer ? Math.max(age, -(instance.step ?? 0)) : age),
      0,
    )
  }

  /** The elements of a state buffer as the next step will read them. */
  state(buffer: number): TensorData {
    return this.slots[this.role.buffers[buffer]!.pool]![this.homeSlot(buffer, 0)]!.data
  }

  /** The elements of an operand; throws where it is no part of the buffer. */
  range(operand: Operand): Range {
    const instance = this.instance(operand.value)
    const { shape, name } = this.role.buffers[instance.buffer]!
    const whole = this.whole(instance)
    if (operand.region === undefined) return whole
    const region = this.role.regions[operand.region]
    if (region === undefined) throw internalError(`no region ${operand.region}`)
    const rows = shape[0] ?? 1
    if (region.start < 0 || region.start >= region.end || region.end > rows)
      throw new EmulationError(
        'EMULATE_REGION',
        `names rows ${region.start} to ${region.end} of ${name}, which has ${rows}`,
      )
    const rowElements = whole.end / rows
    return { ...whole, start: region.start * rowElements, end: region.end * rowElements }
  }

  /** The elements as they are, whoever they belong to. */
  elements({ pool, slot, start, end }: Range): TensorData {
    return this.slots[pool]![slot]!.data.subarray(start, end)
  }

  /** Throws where an element of `range` does not hold the operand's value. */
  requireWritten(operand: Operand, range: Range, verb = 'reads'): void {
    const { owners } = this.slots[range.pool]![range.slot]!
    const padding = this.padding[range.buffer]
    for (let index = range.start; index < range.end; index++) {
      const owner = owners[index]!
      if (owner === operand.value || padding?.[index] === 1) continue
      const name = `${verb} ${formatOperand(this.role, operand)}`
      if (this.freed.has(operand.value))
        throw new EmulationError('EMULATE_FREED', `${name} after it was freed`)
      const reason =
        owner === nobody
          ? `element ${index} of which was never written`
          : `over which ${formatValue(this.role, owner)} was written`
      throw new EmulationError('EMULATE_UNWRITTEN', `${name}, ${reason}`)
    }
  }

  /** Gives the elements of `range` to the operand's value; throws where another value still needs one. */
  claim(operand: Operand, range: Range): void {
    const { value } = operand
    const spec = this.role.buffers[range.buffer]!
    const name = `writes ${formatOperand(this.role, operand)}`
    if (spec.constant !== undefined)
      throw new EmulationError('EMULATE_CONSTANT', `${name}, which is constant`)
    if (this.freed.has(value)) throw new EmulationError('EMULATE_FREED', `${name} after it was freed`)
    const { owners } = this.slots[range.pool]![range.slot]!
    for (let index = range.start; index < range.end; index++) {
      const owner = owners[index]!
      if (owner === value) continue
      if (owner !== nobody && !(spec.state === true && this.isLater(value, owner)))
        throw new EmulationError(
          'EMULATE_LIVE_SLOT',
          `${name} over ${formatValue(this.role, owner)}, which is not freed`,
        )
      owners[index] = value
    }
  }

  /** Makes the padding among the elements of `range` zero: whatever lived in the slot before is gone. */
  clearPadding(range: Range): void {
    const padding = this.padding[range.buffer]
    if (padding === undefined) return
    const data = this.elements(range)
    for (let index = 0; index < data.length; index++) if (padding[range.start + index] === 1) data[index] = 0
  }

  free(value: ValueRef): void {
    const { pool, slot } = this.whole(this.instance(value))
    const { owners } = this.slots[pool]![slot]!
    const name = formatValue(this.role, value)
    if (this.freed.has(value)) throw new EmulationError('EMULATE_FREED', `frees ${name} twice`)
    let found = false
    for (let index = 0; index < owners.length; index++)
      if (owners[index] === value) {
        owners[index] = nobody
        found = true
      }
    if (!found && owners.length > 0)
      throw new EmulationError('EMULATE_UNWRITTEN', `frees ${name}, which was never written`)
    this.freed.add(value)
  }

  /** In-place updates of state write the next version over the present one. */
  private isLater(value: ValueRef, than: ValueRef): boolean {
    return (this.role.values[value]!.step ?? 0) > (this.role.values[than]!.step ?? 0)
  }

  private instance(value: ValueRef): ValueInstance {
    const instance = this.role.values[value]
    if (instance === undefined) throw internalError(`no value ${value} in role ${this.role.name}`)
    const slots = this.slots[this.role.buffers[instance.buffer]?.pool ?? -1]
    if (slots === undefined) throw internalError(`no buffer ${instance.buffer} in role ${this.role.name}`)
    if (slots[instance.slot] === undefined)
      throw new EmulationError(
        'EMULATE_SLOT',
        `${formatValue(this.role, value)} lives in slot ${instance.slot} of ${slots.length}`,
      )
    return instance
  }

  private whole({ buffer, slot }: ValueInstance): Range {
    const { pool, shape } = this.role.buffers[buffer]!
    return { buffer, pool, slot, start: 0, end: elementCount(shape) }
  }

  private homeSlot(buffer: number, step: number): number {
    const of = this.role.values.filter((instance) => instance.buffer === buffer)
    const named = of.find((instance) => (instance.step ?? 0) === step)
    if (named !== undefined) return named.slot
    // Of older versions each has the slot of its age, also where no instruction names it.
    return this.oldest(buffer) > 0 ? 0 - step : (of[0]?.slot ?? 0)
  }
}

function paddingOf(spec: BufferSpec, mesh: ProgramMesh, own: Coordinates): Uint8Array | undefined {
  if (spec.pack === undefined) return undefined
  const padding = new Uint8Array(elementCount(spec.shape)).fill(1)
  const submesh = mesh.submeshes[own.pipeline] ?? []
  for (const { local, start, end } of heldRanges(spec, submesh, own.axes))
    padding.fill(0, local, local + end - start)
  return padding
}

/** A rule of the program's meaning that an instruction broke; who and where is added by the rank that ran it. */
export class EmulationError extends MeshwrightError {
  constructor(code: string, message: string, cause?: unknown) {
    super(code, message, { exitCode: exitCodes.run, ...(cause === undefined ? {} : { cause }) })
  }
}

/** Whether two ranges share an element. */
export function overlaps(a: Range, b: Range): boolean {
  return a.pool === b.pool && a.slot === b.slot && a.start < b.end && b.start < a.end
}
