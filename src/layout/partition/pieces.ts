import { type Graph, GraphBuilder, type InputKind, isFloat, type ValueId } from '../../graph/index.ts'
import { blockShape, heldBlock, heldRange } from '../blocks.ts'
import { allCoordinates, axesSize } from '../mesh.ts'
import { addLocalOp } from '../rules/local.ts'
import type { Coordinates, Mesh } from '../types.ts'
import type { AssignedGraph } from './assign.ts'
import type { ComputeItem, MoveItem, Piece, StartScalar } from './types.ts'

/** The graph that the rank at `own` runs. */
export function pieceGraph({ uneven, graphs }: Piece, mesh: Mesh, own: Coordinates): Graph {
  return graphs[sizeClass(uneven, mesh, own)]!
}

export function startAt({ size, axes }: StartScalar, mesh: Mesh, own: Coordinates): number {
  return heldRange(size, axes, mesh, own).start
}

function sizeClass(uneven: Piece['uneven'], mesh: Mesh, own: Coordinates): string {
  return uneven
    .map(({ size, axes }) => {
      const { start, end } = heldRange(size, axes, mesh, own)
      return end - start
    })
    .join()
}

/**
 * Cuts what was assigned at communication, in its order: a redistribution ends the piece that makes its value. What is made
 * from nothing is made in every piece that uses it.
 */
export function cutPieces(graph: Graph, mesh: Mesh, assigned: AssignedGraph): (Piece | MoveItem)[] {
  const generated = new Map<string, ComputeItem>()
  for (const item of assigned.items)
    if (item.kind === 'compute' && item.isFree) generated.set(item.results[0]!, item)
  const steps: (OpenPiece | MoveItem)[] = []
  let open: OpenPiece = { items: [], exports: new Set() }
  let made = new Set<string>()
  const exported = new Set<string>()
  const add = (item: ComputeItem): void => {
    for (const operand of item.operands) addGenerated(operand)
    open.items.push(item)
    for (const result of item.results) made.add(result)
  }
  const addGenerated = (name: string): void => {
    const item = generated.get(name)
    if (item !== undefined && !made.has(name)) add(item)
  }
  /** What is made from nothing leaves the first piece that is asked for it. */
  const exportGenerated = (name: string): void => {
    if (!generated.has(name) || exported.has(name)) return
    addGenerated(name)
    open.exports.add(name)
    exported.add(name)
  }
  const close = (): void => {
    if (open.items.length > 0) steps.push(open)
    open = { items: [], exports: new Set() }
    made = new Set()
  }
  for (const item of assigned.items)
    if (item.kind === 'redistribute') {
      exportGenerated(item.from)
      if (generated.has(item.from) ? open.exports.has(item.from) : made.has(item.from)) close()
      steps.push(item)
    } else if (!item.isFree) add(item)
  for (const { value } of assigned.outputs) exportGenerated(value)
  close()

  const later = new Set(assigned.outputs.map(({ value }) => value))
  const found: (Piece | MoveItem)[] = []
  for (const step of steps.reverse())
    if ('kind' in step) {
      found.push(step)
      later.add(step.from)
    } else {
      const results = step.items.flatMap((item) => item.results)
      const leaves = (name: string): boolean =>
        generated.has(name) ? step.exports.has(name) : later.has(name)
      const piece = makePiece(graph, mesh, assigned, step.items, results.filter(leaves))
      found.push(piece)
      for (const input of piece.inputs) later.add(input)
    }
  return found.reverse()
}

interface OpenPiece {
  readonly items: ComputeItem[]
  /** What is made from nothing and needed as it is outside. */
  readonly exports: Set<string>
}

function makePiece(
  graph: Graph,
  mesh: Mesh,
  { values }: AssignedGraph,
  items: readonly ComputeItem[],
  outputs: readonly string[],
): Piece {
  const kinds = new Map<string, InputKind>(graph.inputs.map(({ name, kind }) => [name, kind]))
  const uneven = unevenCuts(mesh, values, items)
  const starts = new Map<string, StartScalar>()

  const build = (own: Coordinates): Graph => {
    const builder = new GraphBuilder()
    for (const block of graph.blocks) builder.startBlock(block)
    const made = new Map<string, ValueId>()
    const operand = (name: string): ValueId => {
      const known = made.get(name)
      if (known !== undefined) return known
      const { type, layout } = values.get(name)!
      const shape = blockShape(heldBlock(layout, type.shape, mesh, own))
      const kind = kinds.get(name) ?? (isFloat(type.dtype) ? 'activation' : 'data')
      const value = builder.input(name, kind, { ...type, shape })
      made.set(name, value)
      return value
    }
    for (const { op, assignment, operands, results: names, block } of items) {
      builder.setBlock(block)
      const startValue = (index: string): ValueId => {
        const axes = assignment.indices[index]!
        const size = sizeOf(op, index)
        const start = { name: `start of ${size} over ${axes.join(' ')}`, size, axes }
        starts.set(start.name, start)
        return (
          builder.findInput(start.name) ?? builder.input(start.name, 'scalar', { dtype: 'i32', shape: [] })
        )
      }
      const local = addLocalOp(builder, op, operands.map(operand), mesh, assignment, own, startValue)
      names.forEach((name, at) => {
        made.set(name, local[at]!)
      })
    }
    for (const name of outputs) builder.output(name, made.get(name)!)
    return builder.build()
  }

  const graphs: Record<string, Graph> = {}
  for (const own of uneven.length > 0 ? allCoordinates(mesh) : [{}]) {
    const key = sizeClass(uneven, mesh, own)
    graphs[key] ??= build(own)
  }
  const names = Object.values(graphs)[0]!.inputs.map(({ name }) => name)
  return {
    kind: 'compute',
    inputs: names.filter((name) => !starts.has(name)),
    starts: [...starts.values()].filter(({ name }) => names.includes(name)),
    outputs,
    uneven,
    graphs,
  }
}

/** Of the dim that the start of an index is counted in. */
function sizeOf({ signature, inputs, outputs }: ComputeItem['op'], index: string): number {
  const names = [...signature.inputs, ...signature.outputs]
  const at = names.findIndex((dims) => dims.includes(index))
  return [...inputs, ...outputs][at]!.shape[names[at]!.indexOf(index)]!
}

function unevenCuts(
  mesh: Mesh,
  values: AssignedGraph['values'],
  items: readonly ComputeItem[],
): Piece['uneven'] {
  const cuts = new Map<string, Pick<StartScalar, 'size' | 'axes'>>()
  for (const { operands, results } of items)
    for (const name of [...operands, ...results]) {
      const { type, layout } = values.get(name)!
      layout.dims.forEach((axes, dim) => {
        const size = type.shape[dim]!
        if (size % axesSize(mesh, axes) !== 0) cuts.set(`${size} ${axes.join()}`, { size, axes })
      })
    }
  return [...cuts.values()]
}
