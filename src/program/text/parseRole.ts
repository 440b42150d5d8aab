import type { DType } from '../../graph/index.ts'
import { encodeInstructions } from '../columns.ts'
import { assignSlots } from '../slots.ts'
import type { BufferSpec, Instruction, PackEntry, Role } from '../types.ts'
import type { Declarations } from './parse.ts'
import { InstructionParser, type Value } from './parseInstruction.ts'
import { roleName } from './printRole.ts'
import type { TextReader } from './reader.ts'
import type { Token } from './tokens.ts'

const dtypes: readonly DType[] = ['f32', 'f64', 'i32', 'bool']
const maximumRank = 16
const maximumSlots = 1 << 20

/** A buffer as far as the text says: its slots may follow from the instructions. */
type DeclaredBuffer = Omit<BufferSpec, 'slots'> & { readonly slots: number | undefined }

interface SlotLine {
  readonly value: Value
  readonly slot: number
  readonly at: Token
}

/** What follows the word `role`: its head, buffers, slots, then instructions in order; see printProgram. */
export function parseRole(reader: TextReader, declarations: Declarations): Role {
  const head = parseHead(reader, declarations)
  const buffers: DeclaredBuffer[] = []
  const names = new Map<string, number>()
  while (reader.accept('buffer')) {
    const at = reader.peek()
    const buffer = parseBuffer(reader)
    if (names.has(buffer.name)) throw reader.fail(`a second buffer ${JSON.stringify(buffer.name)}`, at)
    names.set(buffer.name, buffers.length)
    buffers.push(buffer)
  }
  const parser = new InstructionParser(reader, declarations, names)
  const slotLines: SlotLine[] = []
  while (reader.accept('slot')) {
    const at = reader.peek()
    slotLines.push({ at, value: parser.value(), slot: reader.number('a slot', maximumSlots - 1) })
    reader.end()
  }
  const instructions: Instruction[] = []
  while (parser.statement(instructions));

  const values = parser.values.items
  const { slots } = assignSlots(buffers, values, instructions)
  const placed = [...slots]
  for (const { value, slot, at } of slotLines) {
    const index = parser.values.find(value)
    if (index === undefined) throw reader.fail('no instruction names this value', at, 'remove the line')
    placed[index] = slot
  }
  const counts = buffers.map(() => 0)
  values.forEach(({ buffer }, index) => {
    counts[buffer] = Math.max(counts[buffer]!, placed[index]! + 1)
  })
  return {
    ...head,
    buffers: buffers.map((buffer, index) => ({ ...buffer, slots: buffer.slots ?? counts[index]! })),
    values: values.map((value, index) => ({ ...value, slot: placed[index]! })),
    peers: parser.peers.items,
    regions: parser.regions.items,
    actions: parser.actions,
    code: encodeInstructions(instructions),
  }
}

/** `pipeline=0 data%3=1 named last` */
function parseHead(
  reader: TextReader,
  { submeshes }: Declarations,
): Pick<Role, 'name' | 'pipeline' | 'where'> {
  reader.expect('pipeline')
  reader.expect('=')
  if (submeshes.length === 0)
    throw reader.fail('there is no mesh yet', reader.peek(), 'give it above the roles')
  const pipeline = reader.number('a pipeline coordinate', submeshes.length - 1)
  const where = reader.peek(1).text === '%' ? parseWhere(reader, submeshes[pipeline]!) : undefined
  const role = { pipeline, ...(where === undefined ? {} : { where }) }
  const name = reader.accept('named') ? reader.name('a name') : roleName(role)
  reader.end()
  return { name, ...role }
}

function parseWhere(reader: TextReader, axes: Declarations['submeshes'][number]): NonNullable<Role['where']> {
  const at = reader.peek()
  const name = reader.name('an axis')
  const axis = axes.find((candidate) => candidate.name === name)
  if (axis === undefined) throw reader.fail(`the mesh has no axis ${JSON.stringify(name)} here`, at)
  reader.expect('%')
  const modulus = reader.number('a modulus', axis.size, 1)
  reader.expect('=')
  return { axis: name, modulus, remainder: reader.number('a remainder', modulus - 1) }
}

/** `g0: f64[792] x 1 state host sum over data`, then lines `at 128: h.0.ln_1.weight [8] owned sum over data` */
function parseBuffer(reader: TextReader): DeclaredBuffer {
  const name = reader.name('the name of a buffer')
  reader.expect(':')
  const dtype = reader.word(dtypes, 'a dtype')
  const shape = parseShape(reader)
  const slots = reader.accept('x') ? reader.number('a number of slots', maximumSlots) : undefined
  const state = reader.accept('state')
  const tier = reader.accept('host') ? 'host' : 'device'
  const constant = reader.accept('constant') ? { isZero: parseZeros(reader) } : undefined
  const sumOver = parseSum(reader)
  reader.end()
  const pack: PackEntry[] = []
  while (reader.accept('at')) {
    const offset = reader.number('an offset in elements')
    reader.expect(':')
    const entry = { offset, name: reader.name('the name of a tensor'), shape: parseShape(reader) }
    pack.push({ ...entry, owned: reader.accept('owned'), ...parseSum(reader) })
    reader.end()
  }
  return {
    name,
    dtype,
    shape,
    tier,
    slots,
    ...(state ? { state } : {}),
    ...(pack.length === 0 ? {} : { pack }),
    ...(constant === undefined ? {} : { constant }),
    ...sumOver,
  }
}

function parseSum(reader: TextReader): { readonly sumOver?: string } {
  if (!reader.accept('sum')) return {}
  reader.expect('over')
  return { sumOver: reader.name('the name of a group') }
}

function parseShape(reader: TextReader): number[] {
  const at = reader.peek()
  reader.expect('[')
  if (reader.accept(']')) return []
  const shape = reader.list(() => reader.number('a size'))
  reader.expect(']')
  if (shape.length > maximumRank) throw reader.fail(`more than ${maximumRank} dims`, at)
  // Eight bytes an element, and what is counted in bytes must stay exact.
  if (shape.reduce((product, size) => product * size, 1) > 2 ** 48)
    throw reader.fail('more than 2^48 elements', at)
  return shape
}

/** `data=0, context=0`: the axes at whose coordinate 0 the constant is 1. */
function parseZeros(reader: TextReader): string[] {
  if (reader.peek().kind === 'end') return []
  return reader.list(() => {
    const name = reader.name('an axis')
    reader.expect('=')
    reader.number('0', 0)
    return name
  })
}
