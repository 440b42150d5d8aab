import { expect } from 'vitest'
import { compileElementwise, createMemory } from '../../src/engine/local/wasm/index.ts'
import type { FloatDType, Graph } from '../../src/graph/index.ts'

export type FloatData = Float32Array | Float64Array

export function viewOf(
  buffer: ArrayBuffer | SharedArrayBuffer,
  dtype: FloatDType,
  offset: number,
  count: number,
): FloatData {
  return dtype === 'f32' ? new Float32Array(buffer, offset, count) : new Float64Array(buffer, offset, count)
}

/** Element by element in plain JavaScript: doubles, rounded after each operation on f32. */
export function evaluate(graph: Graph, count: number, inputs: readonly ArrayLike<number>[]): number[][] {
  const results: number[][] = graph.outputs.map(() => [])
  for (let element = 0; element < count; element++) {
    const values: number[] = []
    graph.inputs.forEach(({ value }, index) => {
      values[value] = inputs[index]!.length === 1 ? inputs[index]![0]! : inputs[index]![element]!
    })
    for (const node of graph.nodes) {
      const [a, b, c] = node.inputs.map((input) => values[input]!)
      const round = graph.values[node.outputs[0]!]!.type.dtype === 'f32' ? Math.fround : (x: number) => x
      values[node.outputs[0]!] = round(operation(node.op, node.attributes, a!, b!, c!))
    }
    graph.outputs.forEach(({ value }, index) => {
      results[index]!.push(values[value]!)
    })
  }
  return results
}

function operation(op: string, attributes: object, a: number, b: number, c: number): number {
  switch (op) {
    case 'fill':
      return (attributes as { value: number }).value
    case 'neg':
      return -a
    case 'abs':
      return Math.abs(a)
    case 'sqrt':
      return Math.sqrt(a)
    case 'reciprocal':
      return 1 / a
    case 'add':
      return a + b
    case 'sub':
      return a - b
    case 'mul':
      return a * b
    case 'div':
      return a / b
    case 'max':
      return Math.max(a, b)
    case 'min':
      return Math.min(a, b)
    case 'less':
      return a < b ? 1 : 0
    case 'equal':
      return a === b ? 1 : 0
    case 'and':
      return a * b
    case 'not':
      return 1 - a
    case 'where':
      return a === 1 ? b : c
    case 'cast':
      return (attributes as { dtype: string }).dtype === 'bool' ? (a === 0 ? 0 : 1) : a
    default:
      return a
  }
}

/** Runs the compiled graph over operands laid out one behind the other; returns its outputs. */
export function runLoop(
  graph: Graph,
  count: number,
  inputs: readonly ArrayLike<number>[],
  options: { shared?: boolean; inPlace?: readonly [output: number, input: number][] } = {},
): FloatData[] {
  const loop = compileElementwise(graph)
  const memory = createMemory(1 << 16, { shared: options.shared ?? false })
  let next = 8
  const offsets = [...loop.inputs, ...loop.outputs].map(({ scalar }) => {
    const at = next
    next += 8 * ((scalar ? 1 : count) + 1)
    return at
  })
  for (const [output, input] of options.inPlace ?? []) offsets[loop.inputs.length + output] = offsets[input]!
  loop.inputs.forEach(({ dtype, scalar }, index) => {
    viewOf(memory.buffer, dtype, offsets[index]!, scalar ? 1 : count).set(inputs[index]!)
  })
  loop.instantiate(memory)(count, ...offsets)
  return loop.outputs.map(({ dtype, scalar }, index) =>
    viewOf(memory.buffer, dtype, offsets[loop.inputs.length + index]!, scalar ? 1 : count).slice(),
  )
}

/** Equal bits, but for what kind of NaN it is. */
export function expectSame(actual: readonly ArrayLike<number>[], wanted: readonly ArrayLike<number>[]): void {
  expect(actual.map((values) => Array.from(values))).toEqual(wanted.map((values) => Array.from(values)))
}
