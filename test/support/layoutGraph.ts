import {
  densify,
  differentiate,
  type Graph,
  GraphBuilder,
  interpretGraph,
  isFloat,
  makeTensor,
  type Tensor,
} from '../../src/graph/index.ts'
import {
  blockShape,
  coordinatesAt,
  heldBlock,
  meshSize,
  type Partition,
  type Piece,
  pieceGraph,
  printLayout,
  startAt,
} from '../../src/layout/index.ts'
import { collect, execute, type Spread, spread } from './layoutExecutor.ts'

export interface BlockRun {
  readonly outputs: ReadonlyMap<string, Tensor['data']>
  /** By all ranks. */
  readonly sentBytes: number
}

const bytesPerElement = { f32: 4, f64: 8, i32: 4, bool: 1 } as const

/** Runs a partitioned graph on all ranks of its mesh, step by step; `random` makes terms of inputs that are partial. */
export function runPartition(
  partition: Partition,
  inputs: ReadonlyMap<string, Tensor>,
  random: () => number = () => 0,
): BlockRun {
  const { mesh, values, steps } = partition
  const held = new Map<string, Spread>()
  let sentBytes = 0
  for (const name of partition.inputs) {
    const { data, type } = inputs.get(name)!
    held.set(name, spread(data, type.shape, mesh, values.get(name)!.layout, random))
  }
  for (const step of steps)
    if (step.kind === 'compute') runPiece(step, partition, held)
    else {
      const sent = new Array<number>(meshSize(mesh)).fill(0)
      const { redistribution } = step
      const moved = redistribution.steps.reduce((from, one) => execute(one, from, sent), held.get(step.from)!)
      if (held.has(step.to)) throw new Error(`${step.to} is made twice`)
      held.set(step.to, moved)
      sentBytes +=
        sent.reduce((sum, elements) => sum + elements, 0) * bytesPerElement[redistribution.type.dtype]
    }
  return {
    outputs: new Map(
      partition.outputs.map(({ name, value }) => [name, collect(held.get(value)!, 1e-9)] as const),
    ),
    sentBytes,
  }
}

function runPiece(piece: Piece, { mesh, values }: Partition, held: Map<string, Spread>): void {
  const results = new Map<string, Tensor['data'][]>(piece.outputs.map((name) => [name, []]))
  for (let place = 0; place < meshSize(mesh); place++) {
    const own = coordinatesAt(mesh, place)
    const shapeOf = (name: string): number[] => {
      const { layout, type } = values.get(name)!
      return blockShape(heldBlock(layout, type.shape, mesh, own))
    }
    const tensors = new Map<string, Tensor>()
    for (const name of piece.inputs) {
      const { dtype } = values.get(name)!.type
      tensors.set(name, makeTensor({ dtype, shape: shapeOf(name) }, held.get(name)!.blocks[place]!))
    }
    for (const start of piece.starts)
      tensors.set(start.name, makeTensor({ dtype: 'i32', shape: [] }, [startAt(start, mesh, own)]))
    for (const [name, { data, type }] of interpretGraph(pieceGraph(piece, mesh, own), tensors)) {
      if (type.dtype !== values.get(name)!.type.dtype || `${type.shape}` !== `${shapeOf(name)}`)
        throw new Error(`${name} is ${type.dtype}[${type.shape}] where [${shapeOf(name)}] is to be`)
      results.get(name)!.push(data)
    }
  }
  for (const [name, blocks] of results) {
    const { layout, type } = values.get(name)!
    if (held.has(name)) throw new Error(`${name} is made twice`)
    held.set(name, { shape: type.shape, mesh, layout, blocks })
  }
}

/** What moves between ranks, in order: `allReduce of 2 x 8 x 16 as [. | . | .] partial sum tensor`. */
export function collectives({ steps }: Partition): string[] {
  return steps.flatMap((item) =>
    item.kind === 'compute'
      ? []
      : item.redistribution.steps.flatMap(({ kind, before }) =>
          kind === 'slice' || kind === 'keepOne' || kind === 'vary'
            ? []
            : [`${kind} of ${item.redistribution.type.shape.join(' x ')} as ${printLayout(before)}`],
        ),
  )
}

/** Throws where an output of a run is not what the whole graph gives, measured by its largest element or the rms of all. */
export function expectSame(found: BlockRun, expected: ReadonlyMap<string, Tensor>): void {
  const differing: string[] = []
  const all = [...expected.values()].flatMap(({ data }) => [...data])
  const rms = Math.sqrt(all.reduce((sum, value) => sum + value * value, 0) / Math.max(1, all.length))
  for (const [name, { data }] of expected) {
    const own = found.outputs.get(name)!
    const largest = Math.max(rms, ...Array.from(data, Math.abs))
    data.forEach((value, index) => {
      if (!(Math.abs(own[index]! - value) <= 1e-9 * largest))
        differing.push(`${name}[${index}]: ${own[index]}, not ${value}`)
    })
  }
  if (differing.length > 0) throw new Error(differing.slice(0, 5).join('\n'))
}

/** The graph with the derivative of its `loss` with respect to every float input as further outputs `g.<input>`. */
export function withGradients(graph: Graph): Graph {
  const builder = GraphBuilder.from(graph)
  for (const { name, value } of graph.outputs) builder.output(name, value)
  const loss = graph.outputs.find(({ name }) => name === 'loss')!.value
  const wanted = graph.inputs.filter(({ value }) => isFloat(builder.type(value).dtype))
  const cotangent = builder.one('fill', [], { shape: [], dtype: 'f64', value: 1 })
  const gradients = differentiate(builder, {
    outputs: [{ value: loss, cotangent }],
    wanted: wanted.map(({ value }) => value),
  })
  for (const { name, value } of wanted) {
    const dense = densify(builder, value, gradients.get(value)!)
    if (dense !== undefined) builder.output(`g.${name}`, dense)
  }
  return builder.build({ keepInputs: true })
}
