import { internalError } from '../base/index.ts'
import { type AttributeKind, attributeKinds } from './attributeKinds.ts'
import { printName, printNumber } from './textTokens.ts'
import type { Graph, Node, TensorType, ValueId } from './types.ts'

/**
 * The text form of a graph, one thing a line; `parseGraph` gives the graph back. Ids are those of the graph's values.
 *
 *     graph 1
 *     block h.0
 *     input x0 activation %0: f32[2:batch, 8:embed]
 *     input h.0.weight parameter %1: f32[8]
 *     %2: f32[2, 8] y, %3: f32[2, 1] = rmsNorm(%0, %1) epsilon=0.00001 @0
 *     output x1 %2
 *
 * A dim may name its axis; a value may have a name behind its type (an input's is left out when it is the input's own,
 * and is `-` when the value has none); `@0` is the block, left out where a node belongs to none; `#` begins a comment.
 */
export function printGraph(graph: Graph): string {
  const lines = ['graph 1']
  for (const block of graph.blocks) lines.push(`block ${printName(block)}`)
  for (const { name, kind, value } of graph.inputs) {
    const own = graph.values[value]!.name
    const valueName = own === name ? '' : own === undefined ? ' -' : ` ${printName(own)}`
    lines.push(`input ${printName(name)} ${kind} ${printTyped(graph, value)}${valueName}`)
  }
  for (const node of graph.nodes) lines.push(printNode(graph, node))
  for (const { name, value } of graph.outputs) lines.push(`output ${printName(name)} %${value}`)
  return `${lines.join('\n')}\n`
}

function printNode(graph: Graph, node: Node): string {
  const outputs = node.outputs.map((output) => {
    const { name } = graph.values[output]!
    return `${printTyped(graph, output)}${name === undefined ? '' : ` ${printName(name)}`}`
  })
  const operands = node.inputs.map((input) => `%${input}`).join(', ')
  const block = node.block < 0 ? '' : ` @${node.block}`
  return `${outputs.join(', ')} = ${node.op}(${operands})${printAttributes(node)}${block}`
}

function printAttributes(node: Node): string {
  const values = node.attributes as Readonly<Record<string, unknown>>
  return Object.entries<AttributeKind>(attributeKinds[node.op])
    .filter(([name]) => values[name] !== undefined)
    .map(([name, kind]) => ` ${name}=${printAttribute(kind, values[name])}`)
    .join('')
}

function printAttribute(kind: AttributeKind, value: unknown): string {
  if (kind === 'number' || kind === 'optional number') return printNumber(value as number)
  if (kind === 'numbers') return `[${(value as readonly number[]).map(printNumber).join(', ')}]`
  if (kind === 'strings' || kind === 'optional strings')
    return `[${(value as readonly string[]).map(printName).join(', ')}]`
  return String(value)
}

function printTyped(graph: Graph, value: ValueId): string {
  const found = graph.values[value]
  if (found === undefined) throw internalError(`no value ${value}`)
  return `%${value}: ${printType(found.type)}`
}

function printType({ dtype, shape, axes }: TensorType): string {
  if (axes === undefined) return `${dtype}[${shape.join(', ')}]`
  // A scalar has no dims to tell that it has (no) axis names.
  if (shape.length === 0) return `${dtype}[:]`
  return `${dtype}[${shape.map((size, dim) => `${size}:${axes[dim] === '' ? '' : printName(axes[dim]!)}`).join(', ')}]`
}
