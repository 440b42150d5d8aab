import { exitCodes, internalError, MeshwrightError } from '../../base/index.ts'
import { elementCount, emptyData, type TensorData } from '../../graph/index.ts'
import {
  type BufferSpec,
  coordinatesOf,
  formatOperand,
  formatValue,
  type Operand,
  type Program,
  type Role,
  type ValueInstance,
  type ValueRef,
} from '../../program/index.ts'

/** One slot of a buffer: its elements, and for each of them the value that it belongs to (-1: to none). */
interface Slot {
  readonly data: TensorData
  readonly owners: Int32Array
}

/** Elements of one slot. */
export interface Range {
  readonly buffer: number
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
  private readonly slots: readonly (readonly Slot[])[]
  /** For each buffer with a pack: 1 where no entry lies. Padding belongs to nobody and may always be read, as zeros. */
  private readonly padding: readonly (Uint8Array | undefined)[]
  private readonly freed = new Set<ValueRef>()

  constructor(program: Program, role: Role, rank: number) {
    this.role = role
    this.slots = role.buffers.map((spec) =>
      Array.from({ length: Math.max(1, spec.slots) }, () => ({
        data: emptyData(spec.dtype, elementCount(spec.shape)),
        owners: new Int32Array(elementCount(spec.shape)).fill(nobody),
      })),
    )
    this.padding = role.buffers.map(paddingOf)
    const { axes } = coordinatesOf(program.mesh, rank)
    role.buffers.forEach((spec, buffer) => {
      if (spec.constant === undefined) return
      const value = spec.constant.isZero.every((axis) => (axes[axis] ?? 0) === 0) ? 1 : 0
      for (const slot of this.slots[buffer]!) slot.data.fill(value)
    })
  }

  /** State is there, everything else is not. */
  beginStep(): void {
    this.freed.clear()
    for (const slots of this.slots) for (const slot of slots) slot.owners.fill(nobody)
    this.role.values.forEach((instance, value) => {
      const spec = this.role.buffers[instance.buffer]!
      if (spec.constant === undefined && !(spec.state === true && (instance.step ?? 0) === 0)) return
      this.slots[instance.buffer]![instance.slot]!.owners.fill(value)
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
      const left = this.slots[instance.buffer]![instance.slot]!
      this.requireWritten({ value }, this.whole(instance), 'leaves')
      const home = this.slots[instance.buffer]![this.homeSlot(instance.buffer, instance.step! - 1)]!
      if (home !== left) home.data.set(left.data)
    }
  }

  /** The elements of a state buffer as the next step will read them. */
  state(buffer: number): TensorData {
    return this.slots[buffer]![this.homeSlot(buffer, 0)]!.data
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
  elements({ buffer, slot, start, end }: Range): TensorData {
    return this.slots[buffer]![slot]!.data.subarray(start, end)
  }

  /** Throws where an element of `range` does not hold the operand's value. */
  requireWritten(operand: Operand, range: Range, verb = 'reads'): void {
    const { owners } = this.slots[range.buffer]![range.slot]!
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
    const { owners } = this.slots[range.buffer]![range.slot]!
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

  free(value: ValueRef): void {
    const { buffer, slot } = this.instance(value)
    const { owners } = this.slots[buffer]![slot]!
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
    const slots = this.slots[instance.buffer]
    if (slots === undefined) throw internalError(`no buffer ${instance.buffer} in role ${this.role.name}`)
    if (slots[instance.slot] === undefined)
      throw new EmulationError(
        'EMULATE_SLOT',
        `${formatValue(this.role, value)} lives in slot ${instance.slot} of ${slots.length}`,
      )
    return instance
  }

  private whole({ buffer, slot }: ValueInstance): Range {
    return { buffer, slot, start: 0, end: elementCount(this.role.buffers[buffer]!.shape) }
  }

  private homeSlot(buffer: number, step: number): number {
    const of = this.role.values.filter((instance) => instance.buffer === buffer)
    return (of.find((instance) => (instance.step ?? 0) === step) ?? of[0])?.slot ?? 0
  }
}

function paddingOf(spec: BufferSpec): Uint8Array | undefined {
  if (spec.pack === undefined) return undefined
  const padding = new Uint8Array(elementCount(spec.shape)).fill(1)
  for (const { offset, shape } of spec.pack) padding.fill(0, offset, offset + elementCount(shape))
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
  return a.buffer === b.buffer && a.slot === b.slot && a.start < b.end && b.start < a.end
}
