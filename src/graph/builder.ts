import { internalError, MeshwrightError } from '../base/index.ts'
import { opTable } from './ops/index.ts'
import type { OpRule } from './rule.ts'
import type {
  Graph,
  GraphInput,
  GraphOutput,
  InputKind,
  Node,
  OpAttributes,
  OpName,
  TensorType,
  Value,
  ValueId,
} from './types.ts'

/**
 * Makes a Graph node by node. Equal nodes (same op, operands and attributes) are made once, so derivative rules may
 * ask for the same thing twice; types come from each op's shape rule, so an ill-typed graph cannot be made.
 */
export class GraphBuilder {
  private readonly values: Value[] = []
  private readonly inputs: GraphInput[] = []
  private readonly outputs: GraphOutput[] = []
  private readonly nodes: Node[] = []
  private readonly blockNames: string[] = []
  private readonly made = new Map<string, readonly ValueId[]>()
  private readonly producers = new Map<ValueId, Node>()
  private block = -1

  /** Continues an existing graph: value ids stay what they are, outputs are dropped. */
  static from(graph: Graph): GraphBuilder {
    const builder = new GraphBuilder()
    builder.values.push(...graph.values)
    builder.inputs.push(...graph.inputs)
    builder.blockNames.push(...graph.blocks)
    for (const node of graph.nodes) builder.remember(node)
    return builder
  }

  input(name: string, kind: InputKind, type: TensorType): ValueId {
    if (this.inputs.some((input) => input.name === name))
      throw internalError(`graph input ${name} declared twice`)
    const value = this.newValue(type, name)
    this.inputs.push({ name, kind, value })
    return value
  }

  /** The input of that name, if it was declared. */
  findInput(name: string): ValueId | undefined {
    return this.inputs.find((input) => input.name === name)?.value
  }

  output(name: string, value: ValueId): void {
    if (this.outputs.some((output) => output.name === name))
      throw internalError(`graph output ${name} declared twice`)
    this.outputs.push({ name, value })
  }

  /** Nodes made from here on belong to this block. */
  startBlock(name: string): void {
    this.block = this.blockNames.indexOf(name)
    if (this.block < 0) this.block = this.blockNames.push(name) - 1
  }

  /** Nodes made from here on belong to the block of that index (-1: to none). */
  setBlock(index: number): void {
    this.block = index
  }

  type(value: ValueId): TensorType {
    const found = this.values[value]
    if (found === undefined) throw internalError(`no value ${value}`)
    return found.type
  }

  /** The node that makes `value`, or undefined for an input. */
  producer(value: ValueId): Node | undefined {
    return this.producers.get(value)
  }

  /** Adds a node (or finds its equal) and returns all its outputs. */
  op<K extends OpName>(
    op: K,
    inputs: readonly ValueId[],
    attributes: OpAttributes[K],
    name?: string,
  ): readonly ValueId[] {
    const key = `${op} ${inputs.join(',')} ${JSON.stringify(attributes)}`
    const known = this.made.get(key)
    if (known !== undefined) return known
    const rule = opTable[op] as unknown as OpRule<K>
    const types = rule.infer(
      inputs.map((input) => this.type(input)),
      attributes,
    )
    const outputs = types.map((type, index) =>
      this.newValue(type, name === undefined ? undefined : index === 0 ? name : `${name}.${index}`),
    )
    this.remember({ op, attributes, inputs, outputs, block: this.block } as unknown as Node)
    return outputs
  }

  /** Adds a node with a single output of interest: its first. */
  one<K extends OpName>(
    op: K,
    inputs: readonly ValueId[],
    attributes: OpAttributes[K],
    name?: string,
  ): ValueId {
    return this.op(op, inputs, attributes, name)[0]!
  }

  /** The graph of what the outputs need; inputs that nothing needs are dropped unless `keepInputs`. */
  build(options: { readonly keepInputs?: boolean } = {}): Graph {
    return prune(
      {
        values: this.values,
        inputs: this.inputs,
        nodes: this.nodes,
        outputs: this.outputs,
        blocks: this.blockNames,
      },
      options.keepInputs ?? false,
    )
  }

  private newValue(type: TensorType, name: string | undefined): ValueId {
    for (const size of type.shape)
      if (!Number.isSafeInteger(size) || size < 0)
        throw new MeshwrightError('GRAPH_SHAPE', `a dim of size ${size} in [${type.shape.join(', ')}]`)
    return this.values.push(name === undefined ? { type } : { type, name }) - 1
  }

  private remember(node: Node): void {
    this.nodes.push(node)
    this.made.set(`${node.op} ${node.inputs.join(',')} ${JSON.stringify(node.attributes)}`, node.outputs)
    for (const output of node.outputs) this.producers.set(output, node)
  }
}

/** Drops nodes (and, unless `keepInputs`, inputs) that no output needs, and numbers values anew. */
export function prune(graph: Graph, keepInputs: boolean): Graph {
  const needed = new Set<ValueId>(graph.outputs.map((output) => output.value))
  const kept: Node[] = []
  for (let index = graph.nodes.length - 1; index >= 0; index--) {
    const node = graph.nodes[index]!
    if (!node.outputs.some((output) => needed.has(output))) continue
    for (const input of node.inputs) needed.add(input)
    kept.push(node)
  }
  kept.reverse()
  const inputs = graph.inputs.filter((input) => keepInputs || needed.has(input.value))
  const renumbered = new Map<ValueId, ValueId>()
  const values: Value[] = []
  const renumber = (value: ValueId): ValueId => {
    const known = renumbered.get(value)
    if (known !== undefined) return known
    const id = values.push(graph.values[value]!) - 1
    renumbered.set(value, id)
    return id
  }
  const newInputs = inputs.map((input) => ({ ...input, value: renumber(input.value) }))
  const nodes = kept.map(
    (node): Node => ({
      ...node,
      inputs: node.inputs.map(renumber),
      outputs: node.outputs.map(renumber),
    }),
  )
  const outputs = graph.outputs.map((output) => ({ ...output, value: renumber(output.value) }))
  return { values, inputs: newInputs, nodes, outputs, blocks: graph.blocks }
}
