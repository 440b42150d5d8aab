import { type Graph, GraphBuilder, type Node, type ValueId } from '../../graph/index.ts'
import { type Cut, cutOfOperand, cutThrough, joinChunks, takeChunk } from './chunkCuts.ts'

type Communicate = Extract<Node, { op: 'communicate' }>

/** A value of the new graph in chunks. */
interface Chunked {
  readonly cut: Cut
  readonly parts: readonly ValueId[]
}

/**
 * The local graph with products and the collectives beside them in `chunks` equal runs of rows, so that the collective of a
 * chunk may be under way while the product of the next is computed: what Megatron-LM calls tp-comm-overlap and PyTorch
 * asynchronous tensor parallelism (Wang et al. 2023, "Overlap communication with dependent computation via decomposition in
 * large deep learning models").
 *
 * - A product, or a sum of some, scaled or not, that is reduced (`allReduce`, `reduceScatter`): each chunk of its rows is
 *   computed and reduced.
 * - A value that is gathered (`allGather`) for products: each chunk is gathered and multiplied. Who else uses the value
 *   gets the chunks together, so that nothing is gathered twice.
 *
 * The mathematics, the layout of every value that was there, and the bytes on the wire are the same; each such collective is
 * `chunks` calls (attributes `occasion` and `chunk`). A chunk is a part of the outermost dim of the collective's result (of
 * what an allGather takes) that divides and is of rows of the products; where there is none, both stay as they are. Other
 * collectives stay as well.
 */
export function overlapChunks(graph: Graph, chunks: number): Graph {
  return chunks === 1 ? graph : new Chunker(graph, chunks).finish()
}

class Chunker {
  private readonly graph: Graph
  private readonly chunks: number
  private readonly builder = new GraphBuilder()
  /** By value of the graph: what stands for it in the new one. */
  private readonly made = new Map<ValueId, ValueId>()
  /** By value of the new graph. */
  private readonly chunked = new Map<ValueId, Chunked>()
  private readonly maker = new Map<ValueId, Node>()
  private readonly users = new Map<ValueId, Node[]>()
  private readonly outputs: ReadonlySet<ValueId>
  private occasion: number

  constructor(graph: Graph, chunks: number) {
    this.graph = graph
    this.chunks = chunks
    this.outputs = new Set(graph.outputs.map(({ value }) => value))
    this.occasion = 0
    for (const node of graph.nodes) {
      for (const output of node.outputs) this.maker.set(output, node)
      for (const input of node.inputs) this.users.set(input, [...(this.users.get(input) ?? []), node])
      if (node.op === 'communicate') this.occasion = Math.max(this.occasion, node.attributes.occasion ?? 0)
    }
  }

  finish(): Graph {
    const { builder, graph, made } = this
    for (const block of graph.blocks) builder.startBlock(block)
    for (const { name, kind, value } of graph.inputs)
      made.set(value, builder.input(name, kind, graph.values[value]!.type))
    for (const node of graph.nodes) {
      builder.setBlock(node.block)
      const results = this.inChunks(node) ?? this.copied(node)
      node.outputs.forEach((output, at) => {
        made.set(output, results[at]!)
      })
    }
    for (const { name, value } of graph.outputs) builder.output(name, made.get(value)!)
    return builder.build({ keepInputs: true })
  }

  private copied(node: Node): readonly ValueId[] {
    const { name } = this.graph.values[node.outputs[0]!]!
    const operands = node.inputs.map((input) => this.made.get(input)!)
    return this.builder.op(node.op, operands, node.attributes, name)
  }

  /** What stands for the results of a node that is done in chunks. */
  private inChunks(node: Node): readonly ValueId[] | undefined {
    if (node.op === 'communicate')
      return node.attributes.operation === 'allGather' ? this.gathered(node) : this.reduced(node)
    // What is gathered in chunks stays so, as far as the products.
    const operand = this.chunked.get(this.made.get(node.inputs[0]!) ?? -1)
    if (operand === undefined || !(node.op === 'matmul' || isMove(node))) return undefined
    const cut = this.cutOfResult(node, operand.cut)
    if (cut === undefined) return undefined
    const parts = operand.parts.map((_, chunk) => this.part(node, cut, chunk))
    const whole = isMove(node) ? this.copied(node) : [this.joined(node.outputs[0]!, cut, parts)]
    this.chunked.set(whole[0]!, { cut, parts })
    return whole
  }

  private gathered(node: Communicate): readonly ValueId[] | undefined {
    const [operand] = node.inputs as [ValueId]
    const own = this.cuts(operand).find((cut) => {
      const after = this.cutOfResult(node, cut)
      return after !== undefined && this.leadsToProduct(node.outputs[0]!, after)
    })
    if (own === undefined) return undefined
    const cut = this.cutOfResult(node, own)!
    return [this.communicated(node, cut, (chunk) => this.taken(operand, own, chunk))]
  }

  private reduced(node: Communicate): readonly ValueId[] | undefined {
    const { operation } = node.attributes
    if (operation !== 'allReduce' && operation !== 'reduceScatter') return undefined
    const [operand] = node.inputs as [ValueId]
    const [result] = node.outputs as [ValueId]
    for (const cut of this.cuts(result)) {
      const before = this.cutOfOperand(node, 0, cut)
      if (before === undefined || !this.isOfProducts(operand, before)) continue
      return [this.communicated(node, cut, (chunk) => this.chunkOf(operand, before, chunk))]
    }
    return undefined
  }

  /** One call for each chunk, and the whole result of them. */
  private communicated(node: Communicate, cut: Cut, operandOf: (chunk: number) => ValueId): ValueId {
    const occasion = ++this.occasion
    const parts: ValueId[] = []
    for (let chunk = 0; chunk < this.chunks; chunk++)
      parts.push(this.builder.one('communicate', [operandOf(chunk)], { ...node.attributes, occasion, chunk }))
    const whole = this.joined(node.outputs[0]!, cut, parts)
    if (node.attributes.operation === 'allGather') this.chunked.set(whole, { cut, parts })
    return whole
  }

  /** Cuts of a value of the graph, outermost dims first. */
  private cuts(value: ValueId): Cut[] {
    const { shape } = this.graph.values[value]!.type
    return shape.flatMap((size, dim) => (size % this.chunks === 0 ? [{ dim, outer: 1 }] : []))
  }

  private shape(value: ValueId): readonly number[] {
    return this.graph.values[value]!.type.shape
  }

  private cutOfOperand(node: Node, at: number, cut: Cut): Cut | undefined {
    const shapes = node.inputs.map((input) => this.shape(input))
    return cutOfOperand(node, shapes, this.shape(node.outputs[0]!), at, cut, this.chunks)
  }

  /** As the first operand is cut. */
  private cutOfResult(node: Node, cut: Cut): Cut | undefined {
    const shapes = node.inputs.map((input) => this.shape(input))
    return cutThrough(node, shapes, this.shape(node.outputs[0]!), cut, this.chunks)
  }

  /** Whether products have the rows of a value. */
  private leadsToProduct(value: ValueId, cut: Cut): boolean {
    return (this.users.get(value) ?? []).some((node) => {
      if (node.inputs[0] !== value || !(node.op === 'matmul' || isMove(node))) return false
      const after = this.cutOfResult(node, cut)
      if (after === undefined) return false
      return node.op === 'matmul' || this.leadsToProduct(node.outputs[0]!, after)
    })
  }

  /** Whether a value that is used once is made of products whose rows can be cut. */
  private isOfProducts(value: ValueId, cut: Cut): boolean {
    const node = this.maker.get(value)
    if (node === undefined || !this.isUsedOnce(value)) return false
    if (node.op === 'matmul') return this.cutOfOperand(node, 0, cut) !== undefined
    if (node.op !== 'add' && node.op !== 'mul' && !isMove(node)) return false
    return node.inputs.some((input, at) => {
      const before = this.cutOfOperand(node, at, cut)
      return before !== undefined && this.isOfProducts(input, before)
    })
  }

  private isUsedOnce(value: ValueId): boolean {
    const uses = (this.users.get(value) ?? []).flatMap(({ inputs }) => inputs.filter((own) => own === value))
    return uses.length === 1 && !this.outputs.has(value)
  }

  /** A chunk of a value, of which nothing else is made: computed as the value is, as far as the products behind it. */
  private chunkOf(value: ValueId, cut: Cut, chunk: number): ValueId {
    const node = this.maker.get(value)
    const known = this.known(value, cut, chunk)
    if (known !== undefined) return known
    return node !== undefined && this.isOfProducts(value, cut)
      ? this.part(node, cut, chunk)
      : this.taken(value, cut, chunk)
  }

  /** A chunk of what a node makes, from chunks of its operands. */
  private part(node: Node, cut: Cut, chunk: number): ValueId {
    const operands = node.inputs.map((input, at) => {
      const own = this.cutOfOperand(node, at, cut)
      if (own === undefined) return this.made.get(input)!
      return node.op === 'matmul' ? this.taken(input, own, chunk) : this.chunkOf(input, own, chunk)
    })
    if (node.op !== 'reshape') return this.builder.one(node.op, operands, node.attributes)
    const size = node.attributes.shape[cut.dim]! / this.chunks
    return this.builder.one('reshape', operands, { shape: node.attributes.shape.with(cut.dim, size) })
  }

  private known(value: ValueId, cut: Cut, chunk: number): ValueId | undefined {
    const found = this.chunked.get(this.made.get(value)!)
    return found !== undefined && sameCut(found.cut, cut) ? found.parts[chunk]! : undefined
  }

  private taken(value: ValueId, cut: Cut, chunk: number): ValueId {
    return (
      this.known(value, cut, chunk) ??
      takeChunk(this.builder, this.made.get(value)!, cut, { chunk, chunks: this.chunks })
    )
  }

  private joined(value: ValueId, cut: Cut, parts: readonly ValueId[]): ValueId {
    return joinChunks(this.builder, this.graph.values[value]!, cut, parts)
  }
}

/** Ops that only say where elements lie. */
function isMove(node: Node): boolean {
  return node.op === 'reshape' || node.op === 'transpose'
}

function sameCut(left: Cut, right: Cut): boolean {
  return left.dim === right.dim && left.outer === right.outer
}
