import { internalError } from '../../../base/index.ts'
import { type MemoryOpcode, memoryOpcodes, type Opcode, opcodes } from './opcodes.ts'
import { maximumPages } from './webassembly.ts'

export type ValueType = 'i32' | 'f32' | 'f64' | 'v128'

const valueTypes: Readonly<Record<ValueType, number>> = { i32: 0x7f, f32: 0x7d, f64: 0x7c, v128: 0x7b }
const noResult = 0x40

/** Index of a parameter or local of a function. */
export type Local = number

/** Writes the code of one function, instruction by instruction; locals are declared as they are needed. */
export class FunctionWriter {
  readonly name: string
  readonly parameters: readonly ValueType[]
  readonly result: ValueType | undefined
  private readonly locals: ValueType[] = []
  private readonly code: number[] = []

  constructor(name: string, parameters: readonly ValueType[], result?: ValueType) {
    this.name = name
    this.parameters = parameters
    this.result = result
  }

  /** A new local; zero until it is set. */
  local(type: ValueType): Local {
    return this.parameters.length + this.locals.push(type) - 1
  }

  op(...names: readonly Opcode[]): void {
    for (const name of names) this.opcode(opcodes[name])
  }

  get(local: Local): void {
    this.code.push(0x20, ...unsigned(local))
  }

  set(local: Local): void {
    this.code.push(0x21, ...unsigned(local))
  }

  i32(value: number): void {
    this.code.push(0x41, ...signed(value))
  }

  f32(value: number): void {
    this.code.push(0x43, ...littleEndian('f32', value))
  }

  f64(value: number): void {
    this.code.push(0x44, ...littleEndian('f64', value))
  }

  /** A constant vector of equal lanes. */
  splat(dtype: 'f32' | 'f64', value: number): void {
    const lane = littleEndian(dtype, value)
    this.opcode(0xfd0c)
    for (let byte = 0; byte < 16; byte += lane.length) this.code.push(...lane)
  }

  /** Sixteen bytes out of the two vectors on the stack: 0 to 15 of the lower, 16 to 31 of the upper. */
  shuffle(bytes: readonly number[]): void {
    if (bytes.length !== 16) throw internalError(`a shuffle of ${bytes.length} bytes`)
    this.opcode(0xfd0d)
    this.code.push(...bytes)
  }

  extractLane(type: 'f64x2', lane: number): void {
    this.opcode({ f64x2: 0xfd21 }[type])
    this.code.push(lane)
  }

  /** Load or store at the address on the stack plus `offset` bytes. */
  memory(name: MemoryOpcode, offset: number): void {
    const { code, align } = memoryOpcodes[name]
    this.opcode(code)
    this.code.push(align, ...unsigned(offset))
  }

  /** (destination, byte, length) */
  memoryFill(): void {
    this.code.push(0xfc, 0x0b, 0)
  }

  /** (destination, source, length), as if through a buffer between. */
  memoryCopy(): void {
    this.code.push(0xfc, 0x0a, 0, 0)
  }

  /** Branching to it goes to its start. */
  loop(body: () => void): void {
    this.code.push(0x03, noResult)
    body()
    this.code.push(0x0b)
  }

  /** Runs `body` when the condition on the stack is not 0. */
  when(body: () => void): void {
    this.code.push(0x04, noResult)
    body()
    this.code.push(0x0b)
  }

  branchIf(depth: number): void {
    this.code.push(0x0d, ...unsigned(depth))
  }

  /** The function as an entry of a module's code section. */
  body(): number[] {
    const declarations = this.locals.map((type) => [1, valueTypes[type]])
    const body = [...vector(declarations), ...this.code, 0x0b]
    return [...unsigned(body.length), ...body]
  }

  private opcode(code: number): void {
    if (code >= 0xfd00) this.code.push(0xfd, ...unsigned(code - 0xfd00))
    else this.code.push(code)
  }
}

/** A module that imports `engine.memory` and exports each function under its name. */
export function encodeModule(
  functions: readonly FunctionWriter[],
  options: { readonly shared: boolean },
): Uint8Array {
  const types = functions.map(({ parameters, result }) => [
    0x60,
    ...vector(parameters.map((type) => [valueTypes[type]])),
    ...vector(result === undefined ? [] : [[valueTypes[result]]]),
  ])
  // A shared memory is imported with the greatest maximum there is, so that one of any size fits.
  const limits = options.shared ? [0x03, 0, ...unsigned(maximumPages)] : [0x00, 0]
  const memory = [...text('engine'), ...text('memory'), 0x02, ...limits]
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, types),
    ...section(2, [memory]),
    ...section(
      3,
      functions.map((_, index) => unsigned(index)),
    ),
    ...section(
      7,
      functions.map(({ name }, index) => [...text(name), 0x00, ...unsigned(index)]),
    ),
    ...section(
      10,
      functions.map((writer) => writer.body()),
    ),
  ])
}

function section(id: number, entries: readonly (readonly number[])[]): number[] {
  const content = vector(entries)
  return [id, ...unsigned(content.length), ...content]
}

function vector(entries: readonly (readonly number[])[]): number[] {
  return [...unsigned(entries.length), ...entries.flat()]
}

function text(value: string): number[] {
  return vector([...value].map((character) => [character.charCodeAt(0)]))
}

/** LEB128 of a whole number from 0 to 2^32 - 1. */
function unsigned(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  return [...bytes, rest]
}

/** LEB128 of a signed 32-bit number. */
function signed(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  for (;;) {
    const byte = rest & 0x7f
    rest >>= 7
    if ((rest === 0 && byte < 0x40) || (rest === -1 && byte >= 0x40)) return [...bytes, byte]
    bytes.push(byte | 0x80)
  }
}

function littleEndian(dtype: 'f32' | 'f64', value: number): number[] {
  const view = new DataView(new ArrayBuffer(dtype === 'f32' ? 4 : 8))
  if (dtype === 'f32') view.setFloat32(0, value, true)
  else view.setFloat64(0, value, true)
  return [...new Uint8Array(view.buffer)]
}
