import {
  densify,
  differentiate,
  type Graph,
  GraphBuilder,
  isFloat,
  ruleOf,
  type Tensor,
} from '../../src/graph/index.ts'
import {
  coordinatesAt,
  groupAlong,
  type LocalGraph,
  type Mesh,
  meshSize,
  placeAlong,
  placeAt,
  type RankScalar,
} from '../../src/layout/index.ts'
import { collect, spread } from './layoutExecutor.ts'

export interface BlockRun {
  readonly outputs: ReadonlyMap<string, Tensor['data']>
  /** By all ranks, around rings. */
  readonly sentBytes: number
}

const bytesPerElement = { f32: 4, f64: 8, i32: 4, bool: 1 } as const

type Communicate = Extract<Graph['nodes'][number], { op: 'communicate' }>

/** Runs a local graph on all ranks of its mesh, node by node; `random` makes terms of inputs that are partial. */
export function runLocal(
  local: LocalGraph,
  mesh: Mesh,
  inputs: ReadonlyMap<string, Tensor>,
  random: () => number = () => 0,
): BlockRun {
  const { graph, scalars } = local
  const places = Array.from({ length: meshSize(mesh) }, (_, place) => place)
  /** By value, then by place. */
  const held: Tensor[][] = []
  for (const { name, value } of graph.inputs) {
    const { type } = graph.values[value]!
    const scalar = scalars.find((own) => own.name === name)
    if (scalar !== undefined) {
      held[value] = places.map((place) => ({ type, data: Float64Array.of(scalarAt(scalar, mesh, place)) }))
      continue
    }
    const placed = local.inputs.get(name)!
    const { blocks } = spread(inputs.get(name)!.data, placed.type.shape, mesh, placed.layout, random)
    held[value] = blocks.map((data) => ({ type, data }))
    const expected = type.shape.reduce((product, size) => product * size, 1)
    for (const { length } of blocks)
      if (length !== expected) throw new Error(`${name} is of ${length} elements`)
  }
  const sentBytes = runRanks(graph, mesh, held)
  const outputs = graph.outputs.map(({ name, value }) => {
    const { type, layout } = local.outputs.get(name)!
    const blocks = held[value]!.map(({ data }) => data)
    return [name, collect({ shape: type.shape, mesh, layout, blocks }, 1e-9)] as const
  })
  return { outputs: new Map(outputs), sentBytes }
}

/**
 * Runs one graph on all ranks of a mesh. `held` has of each input what every place holds, and gets that of all other
 * values. Returns the bytes that all ranks send.
 */
export function runRanks(graph: Graph, mesh: Mesh, held: Tensor[][]): number {
  const places = Array.from({ length: meshSize(mesh) }, (_, place) => place)
  let sentBytes = 0
  for (const node of graph.nodes) {
    const types = node.outputs.map((output) => graph.values[output]!.type)
    if (node.op === 'communicate') {
      const own = held[node.inputs[0]!]!
      const { elements, blocks } = communicated(
        node,
        mesh,
        own.map(({ data }) => data),
      )
      sentBytes += elements * bytesPerElement[types[0]!.dtype]
      held[node.outputs[0]!] = blocks.map((data) => ({ type: types[0]!, data }))
      continue
    }
    const results = places.map((place) =>
      ruleOf(node.op).reference(
        node.inputs.map((input) => held[input]![place]!),
        node.attributes,
        types,
      ),
    )
    node.outputs.forEach((output, at) => {
      held[output] = results.map((own) => own[at]!)
    })
  }
  return sentBytes
}

function scalarAt(scalar: RankScalar, mesh: Mesh, place: number): number {
  const own = coordinatesAt(mesh, place)
  const along = placeAlong(mesh, scalar.axes, own)
  return scalar.kind === 'start' ? along * scalar.step : Number(along === 0)
}

/** What every place holds after a collective, and how many elements went over the wire. */
function communicated(
  { attributes: { operation, reduce, axes, members, root, shift } }: Communicate,
  mesh: Mesh,
  own: readonly Tensor['data'][],
): { readonly elements: number; readonly blocks: Tensor['data'][] } {
  const blocks: Tensor['data'][] = []
  let elements = 0
  own.forEach((data, place) => {
    const coordinates = coordinatesAt(mesh, place)
    const group = groupAlong(mesh, axes, coordinates)
      .map((member) => placeAt(mesh, member))
      .sort((a, b) => a - b)
    if (group.length !== members) throw new Error(`${group.length} ranks along ${axes}, not ${members}`)
    const rank = group.indexOf(place)
    const all = group.map((member) => own[member]!)
    const size = data.length / members
    const reduced = (): Tensor['data'] =>
      data.map((_, at) => {
        const values = all.map((term) => term[at]!)
        if (reduce === 'max') return Math.max(...values)
        const sum = values.reduce((total, value) => total + value, 0)
        return reduce === 'mean' ? sum / members : sum
      })
    const part = (of: Tensor['data'], index: number): number[] => [
      ...of.subarray(index * size, (index + 1) * size),
    ]
    const made = (values: readonly number[]): Tensor['data'] =>
      data instanceof Int32Array ? Int32Array.from(values) : Float64Array.from(values)
    switch (operation) {
      case 'allReduce':
        blocks[place] = reduced()
        elements += (2 * (members - 1) * data.length) / members
        break
      case 'reduceScatter':
        blocks[place] = made(part(reduced(), rank))
        elements += ((members - 1) * data.length) / members
        break
      case 'allGather':
        blocks[place] = made(all.flatMap((term) => [...term]))
        elements += (members - 1) * data.length
        break
      case 'allToAll':
        blocks[place] = made(all.flatMap((term) => part(term, rank)))
        elements += ((members - 1) * data.length) / members
        break
      case 'permute':
        blocks[place] = all[(rank - shift + members) % members]!
        elements += members > 1 ? data.length : 0
        break
      case 'broadcast':
        blocks[place] = all[root]!
        elements += rank === root ? 0 : data.length
        break
      case 'reduce':
        blocks[place] = rank === root ? reduced() : made(new Array<number>(data.length).fill(0))
        elements += rank === root ? 0 : data.length
        break
    }
  })
  return { elements, blocks }
}

/** What moves between ranks, in order: `allReduce of 2 x 8 x 16 over tensor`, sizes as a rank gives them. */
export function collectives({ graph }: LocalGraph): string[] {
  return graph.nodes.flatMap((node) =>
    node.op === 'communicate'
      ? [
          `${node.attributes.operation} of ${graph.values[node.inputs[0]!]!.type.shape.join(' x ')} over ${node.attributes.axes.join(' ')}`,
        ]
      : [],
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
