import { didYouMean, MeshwrightError } from '../base/index.ts'
import { type AttributeKind, attributeKinds } from './attributeKinds.ts'
import { typeProblem } from './check.ts'
import { opNames } from './ops/index.ts'
import { elementCount } from './tensor.ts'
import { type Token, tokenize } from './textTokens.ts'
import type { Graph, GraphInput, GraphOutput, InputKind, Node, TensorType, Value, ValueId } from './types.ts'

/** Sizes beyond these are refused: no graph has them, and a hostile text could ask for anything. */
const limits = { characters: 1 << 26, values: 1 << 20, rank: 16 } as const

const inputKinds: readonly InputKind[] = ['data', 'parameter', 'activation', 'cotangent', 'state', 'scalar']
const dtypes: readonly TensorType['dtype'][] = ['f32', 'f64', 'i32', 'bool']

/**
 * Reads the text form that `printGraph` writes. What it returns is well formed: values are made once and before use,
 * names differ, and types are what the ops make of their operands. Throws `GRAPH_TEXT` with line and column otherwise.
 */
export function parseGraph(text: string, file?: string): Graph {
  return new GraphParser(text, file).parse()
}

class GraphParser {
  private readonly lines: readonly string[]
  private readonly file: string | undefined
  private line = 0
  private tokens: readonly Token[] = []
  private next = 0

  private readonly values: Value[] = []
  private readonly inputs: GraphInput[] = []
  private readonly nodes: Node[] = []
  private readonly outputs: GraphOutput[] = []
  private readonly blocks: string[] = []

  constructor(text: string, file: string | undefined) {
    this.file = file
    if (text.length > limits.characters)
      throw this.failAt(`the text has more than ${limits.characters} characters`, 1)
    this.lines = text.split('\n')
  }

  parse(): Graph {
    const header = this.nextLine()
    if (header?.text !== 'graph')
      throw this.fail('expected the line `graph 1`', header ?? { kind: 'end', text: '', column: 1 })
    const version = this.take()
    if (version.text !== '1')
      throw this.fail(`version ${version.text} of graphs is not known, only 1`, version)
    this.endLine()
    for (let first = this.nextLine(); first !== undefined; first = this.nextLine()) this.statement(first)
    const missing = [...this.values.keys()].find((value) => this.values[value] === undefined)
    if (missing !== undefined)
      throw this.failAt(`value %${missing} is missing: ids count from 0 without gaps`, 1)
    const { values, inputs, nodes, outputs, blocks } = this
    return { values, inputs, nodes, outputs, blocks }
  }

  /** Moves to the next line that is not empty; its first token. */
  private nextLine(): Token | undefined {
    while (this.line < this.lines.length) {
      this.line++
      this.tokens = tokenize(this.lines[this.line - 1]!, (message, column) => this.failAt(message, column))
      this.next = 0
      if (this.tokens[0]!.kind !== 'end') return this.take()
    }
    return undefined
  }

  private statement(first: Token): void {
    if (first.kind === 'value') this.node(first)
    else if (first.text === 'block') this.blocks.push(this.name())
    else if (first.text === 'input') this.input()
    else if (first.text === 'output') this.output()
    else throw this.fail(`expected a value, \`block\`, \`input\` or \`output\`, found ${first.text}`, first)
    this.endLine()
  }

  private input(): void {
    const at = this.peek()
    const name = this.name()
    if (this.inputs.some((input) => input.name === name)) throw this.fail(`a second input ${name}`, at)
    const kind = this.word(inputKinds, 'a kind of input')
    const id = this.take()
    const type = this.typed()
    const valueName = this.peek().kind === 'end' ? name : this.accept('-') ? undefined : this.name()
    this.inputs.push({ name, kind, value: this.define(id, type, valueName) })
  }

  private output(): void {
    const at = this.peek()
    const name = this.name()
    if (this.outputs.some((output) => output.name === name)) throw this.fail(`a second output ${name}`, at)
    this.outputs.push({ name, value: this.use() })
  }

  private node(first: Token): void {
    const made: { readonly id: Token; readonly type: TensorType; readonly name: string | undefined }[] = []
    for (let id = first; ; id = this.take()) {
      const type = this.typed()
      const named = this.peek().kind === 'word' || this.peek().kind === 'string'
      made.push({ id, type, name: named ? this.name() : undefined })
      if (!this.accept(',')) break
    }
    this.expect('=')
    const opToken = this.peek()
    const op = this.word(opNames, 'an op')
    this.expect('(')
    const inputs = this.list(')', () => this.use())
    const attributes = this.attributes(attributeKinds[op])
    const block = this.accept('@') ? this.blockIndex() : -1
    const outputs = made.map(({ id, type, name }) => this.define(id, type, name))
    const node = { op, attributes, inputs, outputs, block } as unknown as Node
    const problem = this.typeProblem(node, opToken)
    if (problem !== undefined) throw this.fail(`${op} ${problem}`, opToken)
    this.nodes.push(node)
  }

  private typeProblem(node: Node, at: Token): string | undefined {
    try {
      return typeProblem({ values: this.values }, node)
    } catch (error) {
      if (error instanceof MeshwrightError) throw this.fail(error.message, at)
      throw error
    }
  }

  private attributes(kinds: Readonly<Record<string, AttributeKind>>): Record<string, unknown> {
    const found: Record<string, unknown> = {}
    while (this.peek().kind === 'word') {
      const at = this.peek()
      const name = this.word(Object.keys(kinds), 'an attribute of this op')
      if (name in found) throw this.fail(`${name} is given twice`, at)
      this.expect('=')
      found[name] = this.attribute(kinds[name]!)
    }
    for (const [name, kind] of Object.entries(kinds))
      if (kind !== 'optional strings' && kind !== 'optional number' && !(name in found))
        throw this.fail(`attribute ${name} is missing`, this.peek())
    return found
  }

  private attribute(kind: AttributeKind): unknown {
    switch (kind) {
      case 'number':
      case 'optional number':
        return this.number()
      case 'boolean':
        return this.word(['true', 'false'], 'true or false') === 'true'
      case 'numbers':
        this.expect('[')
        return this.list(']', () => this.number())
      case 'strings':
      case 'optional strings':
        this.expect('[')
        return this.list(']', () => this.name())
      default: {
        const words = kind.map(String)
        return kind[words.indexOf(this.word(words, words.join(' or ')))]
      }
    }
  }

  /** `: f32[2:batch, 3:]` */
  private typed(): TensorType {
    this.expect(':')
    const dtype = this.word(dtypes, 'a dtype')
    const at = this.peek()
    this.expect('[')
    if (this.accept(':')) {
      this.expect(']')
      return { dtype, shape: [], axes: [] }
    }
    const axes: string[] = []
    const shape = this.list(']', () => {
      const size = this.size()
      if (this.accept(':')) axes.push(this.peek().kind === 'punctuation' ? '' : this.name())
      return size
    })
    if (shape.length > limits.rank) throw this.fail(`more than ${limits.rank} dims`, at)
    if (!Number.isSafeInteger(elementCount(shape))) throw this.fail('more than 2^53 elements', at)
    if (axes.length === 0) return { dtype, shape }
    if (axes.length < shape.length) throw this.fail('either all dims have a `:` or none', at)
    return { dtype, shape, axes }
  }

  private define(id: Token, type: TensorType, name: string | undefined): ValueId {
    const value = this.valueId(id)
    if (this.values[value] !== undefined) throw this.fail(`${id.text} is made twice`, id)
    this.values[value] = name === undefined ? { type } : { type, name }
    return value
  }

  private use(): ValueId {
    const token = this.take()
    const value = this.valueId(token)
    if (this.values[value] === undefined) throw this.fail(`${token.text} is used before it is made`, token)
    return value
  }

  private valueId(token: Token): ValueId {
    if (token.kind !== 'value') throw this.fail(`expected a value such as %0, found ${token.text}`, token)
    const value = Number(token.text.slice(1))
    if (value >= limits.values) throw this.fail(`ids of values are below ${limits.values}`, token)
    return value
  }

  private blockIndex(): number {
    const at = this.peek()
    const block = this.size()
    if (block >= this.blocks.length) throw this.fail(`there is no block ${block}`, at)
    return block
  }

  private number(): number {
    const token = this.take()
    if (token.kind !== 'number') throw this.fail(`expected a number, found ${token.text}`, token)
    return Number(token.text)
  }

  private size(): number {
    const at = this.peek()
    const value = this.number()
    if (!Number.isSafeInteger(value) || value < 0 || Object.is(value, -0))
      throw this.fail(`expected a whole number that is not negative, found ${at.text}`, at)
    return value
  }

  private name(): string {
    const token = this.take()
    if (token.kind === 'word') return token.text
    if (token.kind !== 'string') throw this.fail(`expected a name, found ${token.text}`, token)
    try {
      return JSON.parse(token.text) as string
    } catch {
      throw this.fail(`${token.text} is not a string as JSON has it`, token)
    }
  }

  private word<T extends string>(allowed: readonly T[], what: string): T {
    const token = this.take()
    const found = allowed.find((candidate) => candidate === token.text)
    if (found !== undefined) return found
    throw this.fail(`expected ${what}, found ${token.text}`, token, didYouMean(token.text, allowed))
  }

  /** Items between commas up to `close`, which is taken as well. */
  private list<T>(close: string, item: () => T): T[] {
    const items: T[] = []
    if (this.accept(close)) return items
    do items.push(item())
    while (this.accept(','))
    this.expect(close)
    return items
  }

  private peek(): Token {
    return this.tokens[this.next]!
  }

  private take(): Token {
    const token = this.peek()
    if (token.kind !== 'end') this.next++
    return token
  }

  private accept(text: string): boolean {
    const token = this.peek()
    if (token.kind !== 'punctuation' || token.text !== text) return false
    this.next++
    return true
  }

  private expect(text: string): void {
    if (!this.accept(text)) throw this.fail(`expected ${text}, found ${this.peek().text}`, this.peek())
  }

  private endLine(): void {
    if (this.peek().kind !== 'end') throw this.fail(`unexpected ${this.peek().text}`, this.peek())
  }

  private fail(message: string, token: Token, hint?: string): MeshwrightError {
    return this.failAt(message, token.column, hint)
  }

  private failAt(message: string, column: number, hint?: string): MeshwrightError {
    const place = { line: Math.max(this.line, 1), column }
    const at = this.file === undefined ? place : { file: this.file, ...place }
    return new MeshwrightError('GRAPH_TEXT', message, hint === undefined ? { at } : { at, hint })
  }
}
