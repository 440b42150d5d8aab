import { didYouMean, MeshwrightError } from '../../base/index.ts'
import { canonicalHash, type Graph, parseGraph, type TensorType } from '../../graph/index.ts'
import type { KernelName, MissingTask, ReadPort, RowsEntry, Task, WritePort } from '../types.ts'
import { parseType } from './parseType.ts'
import type { TextReader } from './reader.ts'
import type { Token } from './tokens.ts'

const kernels: readonly KernelName[] = ['sumSquares', 'copy']

/** A port of the graph by its name, looked up when the graph has been read. */
interface Named {
  readonly name: string
  readonly at: Token
}

interface NamedPort {
  readonly kind: 'read' | 'write'
  /** One tensor, a pack, or ids for rows. */
  readonly tensor: Named | undefined
  readonly ids: boolean
  readonly entries: { readonly port: Named; readonly offset: number }[]
  readonly rows: (Omit<RowsEntry, 'values' | 'ids'> & {
    readonly values: Named
    readonly ids: { readonly read: number } | { readonly output: Named }
  })[]
}

/** What follows `task NAME`; see printTask. */
export function parseTask(reader: TextReader, name: string): Task {
  reader.expect(':')
  const kind = reader.word(['graph', 'kernel', 'missing'], '"graph", "kernel" or "missing"')
  if (kind === 'kernel') {
    const kernel = reader.word(kernels, 'a kernel')
    reader.end()
    return { kind: 'kernel', name, hash: kernel, kernel }
  }
  if (kind === 'missing') return parseMissing(reader, name)
  reader.end()
  const ports: NamedPort[] = []
  for (;;) {
    const at = reader.peek()
    if (reader.accept('read')) ports.push(parseRead(reader))
    else if (reader.accept('write')) ports.push(parsePort(reader, 'write'))
    else if (at.text === 'graph' && at.kind === 'name') break
    else
      throw reader.fail(
        `the graph of task ${JSON.stringify(name)} is missing`,
        at,
        'it follows the ports, from "graph 1" on; only programs printed in full have it',
      )
  }
  const graph = readGraph(reader)
  const inputs = portIndex(reader, 'input', graph.inputs)
  const outputs = portIndex(reader, 'output', graph.outputs)
  const reads = ports
    .filter(({ kind }) => kind === 'read')
    .map((port): ReadPort => {
      if (port.ids) return { kind: 'ids' }
      if (port.tensor !== undefined) return { kind: 'tensor', input: inputs(port.tensor) }
      const entries = port.entries.map((entry) => ({
        input: inputs(entry.port),
        offset: entry.offset,
      }))
      return { kind: 'pack', entries }
    })
  const writes = ports
    .filter(({ kind }) => kind === 'write')
    .map((port): WritePort => {
      if (port.tensor !== undefined) return { kind: 'tensor', output: outputs(port.tensor) }
      return {
        kind: 'pack',
        entries: port.entries.map((entry) => ({ output: outputs(entry.port), offset: entry.offset })),
        rows: port.rows.map(({ values, ids, ...rest }) => ({
          ...rest,
          values: outputs(values),
          ids: 'read' in ids ? ids : { output: outputs(ids.output) },
        })),
      }
    })
  return { kind: 'graph', name, hash: canonicalHash(graph), graph, reads, writes }
}

/** `missing "partial attention"`, then lines `read f64[2, 4]`, `write f64[2, 4]` and `cost 2`. */
function parseMissing(reader: TextReader, name: string): MissingTask {
  const missing = reader.name('what is missing')
  reader.end()
  const reads: TensorType[] = []
  const writes: TensorType[] = []
  let cost: number | undefined
  for (;;) {
    if (reader.accept('read')) reads.push(parseType(reader))
    else if (reader.accept('write')) writes.push(parseType(reader))
    else if (cost === undefined && reader.accept('cost')) cost = reader.number('a cost', 2 ** 31 - 1)
    else break
    reader.end()
  }
  const types = [reads, writes].map((list) => list.map(({ dtype, shape }) => `${dtype}[${shape.join()}]`))
  const hash = `missing ${JSON.stringify([missing, ...types])}`
  return { kind: 'missing', name, hash, missing, reads, writes, ...(cost === undefined ? {} : { cost }) }
}

function portIndex(
  reader: TextReader,
  what: 'input' | 'output',
  ports: readonly { readonly name: string }[],
): (port: Named) => number {
  const indices = new Map(ports.map(({ name }, index) => [name, index]))
  return ({ name, at }) => {
    const index = indices.get(name)
    if (index === undefined)
      throw reader.fail(
        `the graph of this task has no ${what} ${JSON.stringify(name)}`,
        at,
        didYouMean(name, indices.keys()),
      )
    return index
  }
}

function parseRead(reader: TextReader): NamedPort {
  if (reader.accept('ids')) {
    reader.end()
    return { kind: 'read', tensor: undefined, ids: true, entries: [], rows: [] }
  }
  return parsePort(reader, 'read')
}

function parsePort(reader: TextReader, kind: 'read' | 'write'): NamedPort {
  const port: NamedPort = {
    kind,
    tensor: reader.accept('pack') ? undefined : namedPort(reader),
    ids: false,
    entries: [],
    rows: [],
  }
  reader.end()
  while (port.tensor === undefined && reader.accept('at')) {
    const offset = reader.number('an offset in elements')
    reader.expect(':')
    if (kind === 'write' && reader.accept('rows')) port.rows.push({ offset, ...parseRows(reader) })
    else port.entries.push({ port: namedPort(reader), offset })
    reader.end()
  }
  return port
}

/** `d.wte by operand 2, 16 x 8 cleared` */
function parseRows(reader: TextReader): Omit<NamedPort['rows'][number], 'offset'> {
  const values = namedPort(reader)
  reader.expect('by')
  const source = reader.word(['operand', 'output'], '"operand" or "output"')
  const ids =
    source === 'operand' ? { read: reader.number('an operand', 1 << 20) } : { output: namedPort(reader) }
  reader.expect(',')
  const rows = reader.number('the rows of the table')
  reader.expect('x')
  const rowElements = reader.number('the elements of a row')
  return { values, ids, rows, rowElements, clears: reader.accept('cleared') }
}

function namedPort(reader: TextReader): Named {
  const at = reader.peek()
  return { name: reader.name('an input or output of the graph'), at }
}

/** From the statement `graph 1` on, as long as lines are of a graph. */
function readGraph(reader: TextReader): Graph {
  const first = reader.peek()
  const lines = reader.rawLines((line) => /^[ \t]*(?:%|block[ \t]|input[ \t]|output[ \t]|#|\r?$)/.test(line))
  reader.expect('graph')
  const version = reader.number('a version')
  reader.end()
  try {
    return parseGraph([`graph ${version}`, ...lines].join('\n'))
  } catch (error) {
    if (!(error instanceof MeshwrightError)) throw error
    const line = first.line + (error.at?.line ?? 1) - 1
    throw reader.fail(`in this graph: ${error.message}`, { line, column: error.at?.column ?? 1 }, error.hint)
  }
}
