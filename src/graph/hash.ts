import { formatWords, hashText } from './mixing.ts'
import { tensorType } from './tensor.ts'
import type { Graph, TensorType, ValueId } from './types.ts'

/**
 * 128 bits, as 32 hexadecimal digits, that say what a graph computes: types, kinds of inputs, ops, attributes, wiring
 * (also whether one input is used twice or two inputs once each) and the order of inputs and outputs. Numbering of
 * values, names, block marks and the order of independent nodes do not matter. Equal graphs may share one compiled task.
 */
export function canonicalHash(graph: Graph): string {
  const hashes = new Map<ValueId, string>()
  const typeOf = (value: ValueId): string => typeText(graph.values[value]!.type)
  const inputs = graph.inputs.map((input, index) => {
    const text = `input ${index} ${input.kind} ${typeOf(input.value)}`
    hashes.set(input.value, digest(text))
    return text
  })
  const nodes = graph.nodes.map((node) => {
    const operands = node.inputs.map((input) => hashes.get(input)).join(' ')
    const results = node.outputs.map(typeOf).join(' ')
    const hash = digest(`${node.op} ${canonicalText(node.attributes)} (${operands}) ${results}`)
    node.outputs.forEach((output, index) => {
      hashes.set(output, `${hash}.${index}`)
    })
    return hash
  })
  const outputs = graph.outputs.map((output) => hashes.get(output.value))
  // Nodes again, so that work which reaches no output is not overlooked; sorted, because their order is free.
  return digest([inputs.join(','), outputs.join(','), nodes.sort().join(',')].join('; '))
}

function digest(text: string): string {
  return formatWords(hashText(text))
}

function typeText(type: TensorType): string {
  const { dtype, shape, axes } = tensorType(type.dtype, type.shape, type.axes)
  return canonicalText([dtype, shape, axes])
}

/** JSON with sorted keys and without the numbers that JSON confuses: -0, NaN and infinities. */
export function canonicalText(value: unknown): string {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined)
  entries.sort(([left], [right]) => (left < right ? -1 : 1))
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonicalText(entry)}`).join(',')}}`
}
