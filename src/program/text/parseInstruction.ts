import { type Action, phases, scheduleLimits } from '../../schedule/index.ts'
import { Table } from '../table.ts'
import type {
  CollectiveOperation,
  CollectivePart,
  Instruction,
  Operand,
  Peer,
  Region,
  TransferPart,
  ValueInstance,
  Write,
} from '../types.ts'
import { collectiveVerbs } from './instruction.ts'
import { splitNumber } from './operands.ts'
import type { Declarations } from './parse.ts'
import { parsePeer, parseSigned } from './parsePeer.ts'
import type { TextReader } from './reader.ts'
import type { Token } from './tokens.ts'

export type Value = Omit<ValueInstance, 'slot'>

const operations: ReadonlyMap<string, CollectiveOperation> = new Map(
  Object.entries(collectiveVerbs).map(([operation, verb]) => [verb, operation as CollectiveOperation]),
)
const reductions: readonly CollectiveOperation[] = ['allReduce', 'reduceScatter', 'reduce']
const roots: readonly CollectiveOperation[] = ['broadcast', 'reduce', 'gather', 'scatter']
const maximumMembers = 65_536

/** Operands of one role, ranges expanded. */
const maximumOperands = 1 << 24

/** Reads instructions, and fills the tables of their role in the order in which things are first named. */
export class InstructionParser {
  readonly values: Table<Value> = new Table<Value>(
    ({ buffer, microbatch, step, slice, window }) => `${buffer} ${microbatch} ${step} ${slice} ${window}`,
  )
  readonly peers: Table<Peer> = new Table<Peer>((peer) => JSON.stringify(peer))
  readonly regions: Table<Region> = new Table<Region>((region) => `${region.start}:${region.end}`)
  readonly actions: Action[] = []
  private readonly reader: TextReader
  private readonly declarations: Declarations
  private readonly buffers: ReadonlyMap<string, number>
  private readonly bufferNames: readonly string[]
  private operandCount = 0

  constructor(reader: TextReader, declarations: Declarations, buffers: ReadonlyMap<string, number>) {
    this.reader = reader
    this.declarations = declarations
    this.buffers = buffers
    this.bufferNames = [...buffers.keys()]
  }

  /** Adds the instructions of one statement: one, then frees behind `;`. False where there is none. */
  statement(instructions: Instruction[]): boolean {
    const { reader } = this
    if (reader.done || startsDeclaration(reader.peek())) return false
    instructions.push(reader.accept('free') ? this.free() : this.streamInstruction())
    while (reader.accept(';')) {
      reader.expect('free', 'only frees follow on the line of another instruction')
      instructions.push(this.free())
    }
    reader.end()
    return true
  }

  /** `w0[t+1]` */
  value(): Value {
    const buffer = this.reader.known('buffer', this.buffers)
    return { buffer, ...this.index() }
  }

  private streamInstruction(): Instruction {
    const { reader } = this
    const stream = reader.known('stream', this.declarations.streams)
    const at = reader.peek()
    const verb = reader.word(
      ['run', 'send', 'recv', 'exchange', 'move', ...operations.keys()],
      'an instruction',
    )
    switch (verb) {
      case 'run':
        return this.run(stream)
      case 'send':
      case 'recv':
        return { kind: 'exchange', stream, parts: [this.part(verb)] }
      case 'exchange': {
        const parts: TransferPart[] = []
        if (reader.peek().kind !== 'end' && reader.peek().text !== ';')
          do parts.push(this.part(reader.word(['send', 'recv'], '"send" or "recv"')))
          while (reader.accept('|'))
        return { kind: 'exchange', stream, parts }
      }
      case 'move': {
        const direction = reader.word(['in', 'out'], '"in" or "out"')
        if (direction === 'in') {
          const port = reader.name('a port')
          reader.expect('->')
          return { kind: 'move', stream, direction, port, value: this.values.id(this.value()) }
        }
        const value = this.values.id(this.value())
        reader.expect('->')
        return { kind: 'move', stream, direction, port: reader.name('a port'), value }
      }
      default:
        return this.collective(stream, operations.get(verb)!, at)
    }
  }

  /** Behind the verb: `#6 sum g0{0:8} over data`, `#7 w0[t] -> p0[u0] | w1[t] -> p1[u0] over data root 1` */
  private collective(stream: number, operation: CollectiveOperation, at: Token): Instruction {
    const { reader } = this
    const collective = reader.id('the number of the collective')
    const isReduction = reductions.includes(operation)
    const reduce = isReduction ? reader.word(['sum', 'max', 'mean'], 'a reduction') : undefined
    const parts: CollectivePart[] = []
    do {
      const source = this.one(at)
      const result = reader.accept('->') ? this.one(at) : source
      parts.push({ source, result: { ...result, mode: reader.accept('+=') ? 'add' : 'set' } })
    } while (reader.accept('|'))
    reader.expect('over')
    const group = reader.known('group', this.declarations.groups)
    const root = roots.includes(operation) ? this.root() : undefined
    const shift = operation === 'permute' ? this.shift() : undefined
    return {
      kind: 'collective',
      stream,
      collective,
      operation,
      ...(reduce === undefined ? {} : { reduce }),
      group,
      parts,
      ...(root === undefined ? {} : { root }),
      ...(shift === undefined ? {} : { shift }),
    }
  }

  private root(): number {
    this.reader.expect('root')
    return this.reader.number("the root's place in the group", maximumMembers)
  }

  private shift(): number {
    this.reader.expect('shift')
    return this.reader.number('how many members further', maximumMembers, 1)
  }

  private run(stream: number): Instruction {
    const { reader } = this
    const task = reader.known('task', this.declarations.tasks)
    const reads: Operand[] = []
    while (!reader.accept('->')) {
      if (!startsOperand(reader.peek())) reader.expect('->', 'behind it comes what the task writes')
      reads.push(...this.operands())
    }
    const writes: Write[] = []
    while (startsOperand(reader.peek())) {
      const operands = this.operands()
      const mode = reader.accept('+=') ? 'add' : 'set'
      for (const operand of operands) writes.push({ ...operand, mode })
    }
    if (!reader.accept('for')) return { kind: 'run', stream, task, reads, writes }
    return { kind: 'run', stream, task, reads, writes, action: this.actions.push(this.action()) - 1 }
  }

  /** `F stage 0 m3 slice 1 unit 0` */
  private action(): Action {
    const { reader } = this
    const at = reader.peek()
    const phase = reader.name('a phase')
    if ([...phase].some((letter) => !phases.has(letter)))
      throw reader.fail(
        `no phase ${JSON.stringify(phase)}`,
        at,
        `phases are ${[...phases.keys()].join(', ')}, or FB for both in one`,
      )
    reader.expect('stage')
    const stage = reader.number('a stage', scheduleLimits.stages - 1)
    const token = reader.peek()
    const digits = /^m(0|[1-9]\d{0,8})$/.exec(reader.name('a micro-batch'))?.[1]
    const microbatch = Number(digits)
    if (digits === undefined || microbatch >= scheduleLimits.microbatches)
      throw reader.fail(
        `expected a micro-batch, found ${JSON.stringify(token.text.slice(0, 20))}`,
        token,
        `it is written as in m3, below ${scheduleLimits.microbatches}`,
      )
    const slice = reader.accept('slice') ? reader.number('a slice', scheduleLimits.slices - 1) : undefined
    const unit = reader.accept('unit') ? reader.number('a unit', scheduleLimits.microbatches - 1) : undefined
    return {
      phase,
      stage,
      microbatch,
      ...(slice === undefined ? {} : { slice }),
      ...(unit === undefined ? {} : { unit }),
    }
  }

  /** `#6 x0[0]{0:2} to pipeline+1 data=2*data` */
  private part(direction: TransferPart['direction']): TransferPart {
    const { reader } = this
    const transfer = reader.id('the number of the transfer')
    const operand = this.one(reader.peek())
    reader.expect(direction === 'send' ? 'to' : 'from')
    return { direction, transfer, ...operand, peer: this.peers.id(parsePeer(reader)) }
  }

  private free(): Instruction {
    const values: number[] = []
    while (startsOperand(this.reader.peek())) {
      const at = this.reader.peek()
      for (const { value, region } of this.operands()) {
        if (region !== undefined) throw this.reader.fail('values are freed as a whole', at)
        values.push(value)
      }
    }
    return { kind: 'free', values }
  }

  private one(at: Token): Operand {
    const [operand, second] = this.operands()
    if (operand === undefined || second !== undefined) throw this.reader.fail('one value is due here', at)
    return operand
  }

  /** `x0[3]{0:2}`, or several as in `r0.0..4[3]`. */
  private operands(): Operand[] {
    const { reader } = this
    const at = reader.peek()
    const first = reader.known('buffer', this.buffers)
    const buffers = reader.accept('..') ? this.range(first, at) : [first]
    this.operandCount += buffers.length
    if (this.operandCount > maximumOperands) throw reader.fail(`more than ${maximumOperands} operands`, at)
    const index = this.index()
    const region = this.region()
    return buffers.map((buffer) => {
      const value = this.values.id({ buffer, ...index })
      return region === undefined ? { value } : { value, region }
    })
  }

  private range(first: number, at: Token): number[] {
    const { reader } = this
    const { prefix, number } = splitNumber(this.bufferNames[first]!)
    if (number === undefined || at.kind === 'string')
      throw reader.fail('a range begins with a name that ends in a number', at, 'as in r0.0..4[1]')
    const last = reader.number('the last number of the range', number + this.buffers.size, number)
    const buffers: number[] = []
    for (let next = number; next <= last; next++) {
      const buffer = this.buffers.get(`${prefix}${next}`)
      if (buffer === undefined) throw reader.fail(`there is no buffer ${prefix}${next}`, at)
      buffers.push(buffer)
    }
    return buffers
  }

  /** `[3]`, `[t+1]`, `[t,3]`, `[3,s1]`, `[u2]`, or nothing: step, micro-batch, slice, window, in this order. */
  private index(): Omit<Value, 'buffer'> {
    const { reader } = this
    if (!reader.accept('[')) return {}
    const index: { step?: number; microbatch?: number; slice?: number; window?: number } = {}
    do {
      const token = reader.peek()
      const [, letter, digits] = /^([su])(0|[1-9]\d{0,8})$/.exec(token.text) ?? []
      const known = Object.keys(index).at(-1)
      if (known === undefined && reader.accept('t')) index.step = parseSigned(reader)
      else if (letter === undefined && known !== 'microbatch' && known !== 'slice' && known !== 'window')
        index.microbatch = reader.number('a micro-batch', scheduleLimits.microbatches - 1)
      else if (letter === 's' && known !== 'slice' && known !== 'window' && reader.accept(token.text))
        index.slice = Number(digits)
      else if (letter === 'u' && known !== 'window' && reader.accept(token.text))
        index.window = Number(digits)
      else
        throw reader.fail(
          `expected an index, found ${JSON.stringify(token.text.slice(0, 20))}`,
          token,
          'they are step, micro-batch, slice and window, in this order, as in [t,3,s1,u2]',
        )
    } while (reader.accept(','))
    reader.expect(']')
    const { step, microbatch, ...rest } = index
    return {
      ...(microbatch === undefined ? {} : { microbatch }),
      ...(step === undefined ? {} : { step }),
      ...rest,
    }
  }

  /** `{0:128}`: index of the region, or nothing. */
  private region(): number | undefined {
    const { reader } = this
    if (!reader.accept('{')) return undefined
    const start = reader.number('the first row')
    reader.expect(':')
    const end = reader.number('the row after the last')
    reader.expect('}')
    return this.regions.id({ start, end })
  }
}

const declarations: ReadonlySet<string> = new Set([
  'work',
  'channel',
  'mesh',
  'devices',
  'stream',
  'group',
  'task',
  'role',
])

function startsDeclaration(token: Token): boolean {
  return token.kind === 'name' && declarations.has(token.text)
}

/** Words that end a list of operands. */
function startsOperand(token: Token): boolean {
  return token.kind === 'string' || (token.kind === 'name' && token.text !== 'for')
}
