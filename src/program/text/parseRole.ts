import { encodeInstructions } from '../columns.ts'
import { assignPools, assignSlots, maySharePool } from '../slots.ts'
import type { BufferSpec, Constant, Instruction, PackBlock, PackEntry, Role, Shard } from '../types.ts'
import type { Declarations } from './parse.ts'
import { InstructionParser, type Value } from './parseInstruction.ts'
import { parseShape, parseType } from './parseType.ts'
import { roleName } from './printRole.ts'
import type { TextReader } from './reader.ts'
import type { Token } from './tokens.ts'

const maximumSlots = 1 << 20

/** A buffer as far as the text says: where its values live may follow from the instructions. */
interface DeclaredBuffer {
  readonly spec: Omit<BufferSpec, 'pool'>
  /** Slots of a pool of its own. */
  readonly slots: number | undefined
  /** Index of the buffer whose pool it shares. */
  readonly shares: number | undefined
}

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
    const buffer = parseBuffer(reader, names)
    const { name } = buffer.spec
    if (names.has(name)) throw reader.fail(`a second buffer ${JSON.stringify(name)}`, at)
    const shared = buffer.shares === undefined ? undefined : buffers[buffer.shares]!.spec
    if (shared !== undefined && !maySharePool(buffer.spec, shared))
      throw reader.fail(
        `${JSON.stringify(name)} cannot share the slots of ${JSON.stringify(shared.name)}`,
        at,
        'buffers that do are of one dtype, as many elements and one tier, and neither state nor constant',
      )
    names.set(name, buffers.length)
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
  const pooled = assignDeclared(buffers)
  const { slots, pools: needed } = assignSlots(pooled, values, instructions)
  const placed = [...slots]
  for (const { value, slot, at } of slotLines) {
    const index = parser.values.find(value)
    if (index === undefined) throw reader.fail('no instruction names this value', at, 'remove the line')
    placed[index] = slot
  }
  const counts = needed.map(() => 0)
  values.forEach(({ buffer }, index) => {
    const { pool } = pooled[buffer]!
    counts[pool] = Math.max(counts[pool]!, placed[index]! + 1)
  })
  buffers.forEach((buffer, index) => {
    if (buffer.slots !== undefined) counts[pooled[index]!.pool] = buffer.slots
  })
  return {
    ...head,
    buffers: pooled,
    pools: counts.map((count) => ({ slots: count })),
    values: values.map((value, index) => ({ ...value, slot: placed[index]! })),
    peers: parser.peers.items,
    regions: parser.regions.items,
    actions: parser.actions,
    code: encodeInstructions(instructions),
  }
}

/** Pools in the order of their first buffers: those that the text says, for other buffers those of the rule. */
function assignDeclared(buffers: readonly DeclaredBuffer[]): BufferSpec[] {
  const ruled = buffers.filter(({ slots, shares }) => slots === undefined && shares === undefined)
  const rule = assignPools(ruled.map(({ spec }) => spec)).values()
  const firstOfRule = new Map<number, number>()
  const numbers = new Map<number, number>()
  const firsts: number[] = []
  return buffers.map(({ spec, slots, shares }, index) => {
    let first = index
    if (shares !== undefined) first = firsts[shares]!
    else if (slots === undefined) {
      const pool = rule.next().value!
      first = firstOfRule.get(pool) ?? index
      firstOfRule.set(pool, first)
    }
    firsts.push(first)
    const number = numbers.get(first) ?? numbers.size
    numbers.set(first, number)
    return { ...spec, pool: number }
  })
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

/**
 * `g0: f64[792] x 1 state host sharded over data in 0:1584 sum over tied`, then lines
 * `at 128: h.0.mlp.weight [8, 16] block [8, 16/tensor] owned sum over data`
 */
function parseBuffer(reader: TextReader, known: ReadonlyMap<string, number>): DeclaredBuffer {
  const name = reader.name('the name of a buffer')
  reader.expect(':')
  const { dtype, shape } = parseType(reader)
  const slots = reader.accept('x') ? reader.number('a number of slots', maximumSlots) : undefined
  const shares = slots === undefined && reader.accept('with') ? reader.known('buffer', known) : undefined
  const state = reader.accept('state')
  const frozen = state && reader.accept('frozen')
  const tier = reader.accept('host') ? 'host' : 'device'
  const constant = reader.accept('constant') ? parseConstant(reader) : undefined
  const windowed = reader.accept('windowed')
  const shard = parseShard(reader)
  const sumOver = parseSum(reader)
  const unsynced = reader.accept('unsynced')
  reader.end()
  const pack: PackEntry[] = []
  while (reader.accept('at')) {
    const offset = reader.number('an offset in elements')
    reader.expect(':')
    const entry = { offset, name: reader.name('the name of a tensor'), shape: parseShape(reader) }
    const block = reader.accept('block') ? { block: parseBlock(reader) } : {}
    pack.push({ ...entry, ...block, owned: reader.accept('owned'), ...parseSum(reader) })
    reader.end()
  }
  const spec: Omit<BufferSpec, 'pool'> = {
    name,
    dtype,
    shape,
    tier,
    ...(state ? { state } : {}),
    ...(frozen ? { frozen } : {}),
    ...(pack.length === 0 ? {} : { pack }),
    ...(constant === undefined ? {} : { constant }),
    ...(windowed ? { windowed } : {}),
    ...(shard === undefined ? {} : { shard }),
    ...sumOver,
    ...(unsynced ? { unsynced } : {}),
  }
  return { spec, slots, shares }
}

/** `sharded over data.shard, data.replica in 0:48, 48:64` */
function parseShard(reader: TextReader): Shard | undefined {
  if (!reader.accept('sharded')) return undefined
  reader.expect('over')
  const axes = reader.list(() => reader.name('an axis'))
  reader.expect('in')
  const segments = reader.list(() => {
    const start = reader.number('the first element')
    reader.expect(':')
    return { start, end: reader.number('the element after the last') }
  })
  return { axes, segments }
}

function parseSum(reader: TextReader): { readonly sumOver?: string } {
  if (!reader.accept('sum')) return {}
  reader.expect('over')
  return { sumOver: reader.name('the name of a group') }
}

/** `[12/context/tensor, 4]`: of each dim its size, and behind it the axes that cut it. */
function parseBlock(reader: TextReader): PackBlock {
  const axes: string[][] = []
  const shape = parseShape(reader, () => {
    const size = reader.number('a size')
    const cuts: string[] = []
    while (reader.accept('/')) cuts.push(reader.name('an axis'))
    axes.push(cuts)
    return size
  })
  return { shape, axes }
}

/** `data=0, context=0`: the axes at whose coordinate 0 it is 1. `4 * place along context, tensor`: see `Constant`. */
function parseConstant(reader: TextReader): Constant {
  const next = reader.peek()
  if (next.kind === 'number') {
    const step = reader.number('a step', 2 ** 31 - 1)
    reader.expect('*')
    reader.expect('place')
    const axes = reader.accept('along') ? reader.list(() => reader.name('an axis')) : []
    return { start: { axes, step } }
  }
  if (reader.peek(1).text !== '=') return { isZero: [] }
  const isZero = reader.list(() => {
    const name = reader.name('an axis')
    reader.expect('=')
    reader.number('0', 0)
    return name
  })
  return { isZero }
}
