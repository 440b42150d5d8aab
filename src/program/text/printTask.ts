import { type Graph, printGraph, type TensorType } from '../../graph/index.ts'
import type { GraphTask, ReadPort, Task, WritePort } from '../types.ts'
import { printName } from './tokens.ts'

/**
 * A task's declaration; in full its ports by the names of the graph's inputs and outputs, then the graph:
 *
 * ```
 * task B0: graph
 *   read d.x0
 *   read pack
 *     at 0: wte.weight
 *   read ids
 *   write pack
 *     at 128: d.ln.weight
 *     at 0: rows d.wte.weight by operand 2, 16 x 8 cleared
 *   graph 1
 *   input d.x0 cotangent %0: f64[2, 8, 8]
 *   …
 * ```
 */
export function printTask(task: Task, full: boolean): string[] {
  const head = `task ${printName(task.name)}:`
  if (task.kind === 'kernel') return [`${head} kernel ${task.kernel}`]
  if (task.kind === 'missing')
    return [
      `${head} missing ${JSON.stringify(task.missing)}`,
      ...task.reads.map((type) => `  read ${printType(type)}`),
      ...task.writes.map((type) => `  write ${printType(type)}`),
      ...(task.cost === undefined ? [] : [`  cost ${task.cost}`]),
    ]
  const { nodes, inputs, outputs } = task.graph
  const sizes = `${nodes.length} ops, ${inputs.length} inputs, ${outputs.length} outputs, hash ${task.hash}`
  if (!full) return [`${head} graph  # ${sizes}`]
  return [
    `${head} graph  # ${sizes}`,
    ...task.reads.flatMap((port) => printRead(task.graph, port)),
    ...task.writes.flatMap((port) => printWrite(task, port)),
    ...printGraph(task.graph)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
  ]
}

function printType({ dtype, shape }: TensorType): string {
  return `${dtype}[${shape.join(', ')}]`
}

function printRead(graph: Graph, port: ReadPort): string[] {
  switch (port.kind) {
    case 'tensor':
      return [`  read ${printPort(graph.inputs, port.input)}`]
    case 'pack':
      return [
        '  read pack',
        ...port.entries.map(({ input, offset }) => `    at ${offset}: ${printPort(graph.inputs, input)}`),
      ]
    case 'ids':
      return ['  read ids']
  }
}

function printWrite({ graph }: GraphTask, port: WritePort): string[] {
  if (port.kind === 'tensor') return [`  write ${printPort(graph.outputs, port.output)}`]
  return [
    '  write pack',
    ...port.entries.map(({ output, offset }) => `    at ${offset}: ${printPort(graph.outputs, output)}`),
    ...port.rows.map(({ values, ids, offset, rows, rowElements, clears }) => {
      const by = 'read' in ids ? `operand ${ids.read}` : `output ${printPort(graph.outputs, ids.output)}`
      const table = `${rows} x ${rowElements}${clears ? ' cleared' : ''}`
      return `    at ${offset}: rows ${printPort(graph.outputs, values)} by ${by}, ${table}`
    }),
  ]
}

const portWords: ReadonlySet<string> = new Set(['pack', 'ids', 'rows'])

function printPort(ports: readonly { readonly name: string }[], index: number): string {
  const name = ports[index]?.name ?? '?'
  return portWords.has(name) ? JSON.stringify(name) : printName(name)
}
