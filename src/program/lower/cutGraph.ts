import {
  type Graph,
  type GraphInput,
  type GraphOutput,
  graphCost,
  isFloat,
  type Node,
  type TensorType,
  type ValueId,
} from '../../graph/index.ts'
import type { CollectiveOperation } from '../types.ts'
import { type Communicate, type Flow, flowOf } from './flow.ts'
import { pieceGraph } from './pieceGraph.ts'
import { copyPiece, idsPieces, type OutputMarks, type Placement, placeNodes } from './placement.ts'

/** What the outside does with outputs of a phase. */
export interface PhaseOutputs extends OutputMarks {
  /** Its buffer may be read by later pieces, by its name. */
  readonly isReadable: (output: string) => boolean
  /** A collective may write where it goes. */
  readonly takesCollective: (output: string) => boolean
  /** Axes along which ranks hold terms of it until the step's end; undefined where those are not ranks of one actor. */
  readonly sumsOf: (output: string) => readonly string[] | undefined
  /** Number of the first value that crosses pieces. */
  readonly firstCrossing: number
}

/** Where a value is: an input or an output of the phase, or a value that crosses between pieces, by name. */
export interface CutPlace {
  readonly kind: 'input' | 'output' | 'crossing'
  readonly name: string
}

export interface CutRun {
  readonly kind: 'run'
  /** Names of inputs and outputs are those of the phase, or of crossings. */
  readonly graph: Graph
  readonly flops: number
}

export interface CutCollective {
  readonly kind: 'collective'
  readonly operation: CollectiveOperation
  readonly reduce: 'sum' | 'max' | 'mean' | undefined
  readonly axes: readonly string[]
  readonly root: number | undefined
  readonly shift: number | undefined
  /** Of one that is done in chunks. */
  readonly chunk: number | undefined
  readonly parts: readonly { readonly source: CutPlace; readonly result: CutPlace }[]
}

export interface CutGraph {
  /** In order. */
  readonly steps: readonly (CutRun | CutCollective)[]
  readonly crossings: ReadonlyMap<string, Crossing>
  /** By output that is ids of rows: where they are, for pieces that do not make them. */
  readonly idsAt: ReadonlyMap<string, CutPlace>
  /** Number of the first crossing of the next phase. */
  readonly nextCrossing: number
}

export interface Crossing {
  readonly type: TensorType
  /** Axes along which ranks hold terms of it, until a collective adds them. */
  readonly terms: readonly string[]
}

/**
 * A phase of one rank as pieces to run and the collectives between them, in an order in which they can be done. Values that
 * one piece makes and another needs, or that are communicated, cross by name.
 */
export function cutGraph(graph: Graph, outside: PhaseOutputs): CutGraph {
  const flow = flowOf(graph)
  return new Cut(flow, placeNodes(flow, outside), outside).finish()
}

/** A value in memory, of a root. */
interface Held {
  readonly place: CutPlace
  readonly type: TensorType
}

class Cut {
  private readonly flow: Flow
  private readonly placement: Placement
  private readonly outside: PhaseOutputs
  private readonly crossings = new Map<string, Crossing>()
  private count: number
  private readonly inputs: ReadonlyMap<ValueId, GraphInput>
  /** By root. */
  private readonly outputs = new Map<ValueId, GraphOutput[]>()
  private readonly users = new Map<ValueId, Set<number>>()
  private readonly sources = new Map<ValueId, Communicate[]>()
  /** By root: where pieces and collectives find it. */
  private readonly held = new Map<ValueId, Held>()
  /** By piece: what it has to make. */
  private readonly made = new Map<number, GraphOutput[]>()

  constructor(flow: Flow, placement: Placement, outside: PhaseOutputs) {
    this.flow = flow
    this.placement = placement
    this.outside = outside
    this.count = outside.firstCrossing
    const { graph, root, placed, communications } = flow
    this.inputs = new Map(graph.inputs.map((input) => [input.value, input]))
    for (const output of graph.outputs)
      if (!outside.idsOf.has(output.name)) append(this.outputs, root[output.value]!, output)
    for (const node of placed)
      for (const input of node.inputs) this.use(root[input]!, placement.pieceOf.get(node)!)
    for (const [value, pieces] of idsPieces(flow, outside, placement))
      for (const piece of pieces) this.use(value, piece)
    for (const node of communications) append(this.sources, root[node.inputs[0]!]!, node)
  }

  finish(): CutGraph {
    const { graph, communications, root, lastLevel } = this.flow
    this.holdInputs()
    for (const node of this.flow.placed) for (const output of node.outputs) this.holdMade(output, node)
    for (const node of communications) this.holdResult(node)
    this.placeOutputs()
    const collectives = new Map<number, CutCollective[]>()
    for (const node of communications)
      append(collectives, this.placement.issued.get(node)!, this.collective(node))
    // From the last: what a value is terms of depends on what becomes of its sum.
    for (const node of communications.toReversed()) this.noteTerms(node)
    const steps: (CutRun | CutCollective)[] = []
    for (let piece = 0; piece <= 2 * lastLevel + 1; piece++) {
      const outputs = this.outputsOf(piece)
      if (outputs.length > 0) {
        const own = this.pieceGraph(piece, outputs)
        steps.push({ kind: 'run', graph: own, flops: graphCost(own).flops })
      }
      steps.push(...joined(collectives.get(piece) ?? []))
    }
    const idsAt = new Map<string, CutPlace>()
    for (const { name, value } of graph.outputs) {
      const found = this.outside.idsOf.has(name) ? this.held.get(root[value]!) : undefined
      if (found !== undefined) idsAt.set(name, found.place)
    }
    return { steps, crossings: this.crossings, idsAt, nextCrossing: this.count }
  }

  private use(value: ValueId, piece: number): void {
    const known = this.users.get(value) ?? new Set<number>()
    this.users.set(value, known.add(piece))
  }

  private type(value: ValueId): TensorType {
    return this.flow.graph.values[value]!.type
  }

  private holdInputs(): void {
    for (const { name, value } of this.flow.graph.inputs)
      this.held.set(value, { place: { kind: 'input', name }, type: this.type(value) })
  }

  /** What a piece makes is in memory where another piece or a collective needs it. */
  private holdMade(value: ValueId, node: Node): void {
    const piece = this.placement.pieceOf.get(node)!
    const isUsed = [...(this.users.get(value) ?? [])].some((user) => user !== piece)
    const [source] = this.sources.get(value) ?? []
    if (!isUsed && source === undefined) return
    const output = this.outputs.get(value)?.find(({ name }) => this.outside.isReadable(name))
    if (output !== undefined) this.holdOutput(value, output)
    else append(this.made, piece, { name: this.cross(value, this.sourceType(value)), value })
  }

  private holdOutput(value: ValueId, { name, value: own }: GraphOutput): void {
    this.held.set(value, { place: { kind: 'output', name }, type: this.type(own) })
  }

  private cross(value: ValueId, type: TensorType): string {
    const name = `t${this.count++}`
    this.crossings.set(name, { type, terms: [] })
    this.held.set(value, { place: { kind: 'crossing', name }, type })
    return name
  }

  /** As a collective needs it, where one does. */
  private sourceType(value: ValueId): TensorType {
    const sources = this.sources.get(value) ?? []
    const source = sources.find((node) => !fits(node, this.type(value))) ?? sources[0]
    return this.type(source?.inputs[0] ?? value)
  }

  /** A collective's result goes to the output that it is, if it is only that or may be read there. */
  private holdResult(node: Communicate): void {
    const value = node.outputs[0]!
    const outputs = this.outputs.get(value) ?? []
    const isUsed = this.users.has(value) || this.sources.has(value)
    const output = outputs.find(({ name }) => this.outside.isReadable(name))
    if (output !== undefined) this.holdOutput(value, output)
    else if (!isUsed && outputs.length === 1 && this.outside.takesCollective(outputs[0]!.name))
      this.holdOutput(value, outputs[0]!)
    else this.cross(value, this.sourceType(value))
  }

  /** Every output that no collective writes is made in some piece. */
  private placeOutputs(): void {
    const { maker } = this.flow
    for (const [value, outputs] of this.outputs) {
      const node = maker[value]
      const place = this.held.get(value)?.place
      for (const output of outputs) {
        if (node?.op === 'communicate' && place?.kind === 'output' && place.name === output.name) continue
        const piece = (node && this.placement.pieceOf.get(node)) ?? copyPiece(node, this.placement.issued)
        append(this.made, piece, output)
      }
    }
  }

  private collective(node: Communicate): CutCollective {
    const { operation, reduce, axes, root, shift, chunk } = node.attributes
    return {
      kind: 'collective',
      operation,
      reduce: reduce ?? undefined,
      axes,
      root: operation === 'broadcast' || operation === 'reduce' ? root : undefined,
      shift: operation === 'permute' ? shift : undefined,
      chunk,
      parts: [{ source: this.source(node), result: this.held.get(node.outputs[0]!)!.place }],
    }
  }

  private source(node: Communicate): CutPlace {
    const { root } = this.flow
    const operand = node.inputs[0]!
    const found = this.held.get(root[operand]!)
    const isFlat = this.inputs.get(root[operand]!)?.kind === 'parameter'
    if (found !== undefined && (isFlat || fits(node, found.type))) return found.place
    // A copy that divides as the collective divides it, or of what is made from nothing.
    const name = `t${this.count++}`
    this.crossings.set(name, { type: this.type(operand), terms: [] })
    append(this.made, this.placement.issued.get(node)!, { name, value: operand })
    return { kind: 'crossing', name }
  }

  /** A value that one sum is made of, and no other piece reads, is terms of that sum and of what its result is terms of. */
  private noteTerms(node: Communicate): void {
    const { root, maker } = this.flow
    const value = root[node.inputs[0]!]!
    const place = this.held.get(value)?.place
    const result = this.held.get(node.outputs[0]!)!.place
    const made = this.placement.pieceOf.get(maker[value]!)
    const isSole =
      this.sources.get(value)!.length === 1 &&
      [...(this.users.get(value) ?? [])].every((piece) => piece === made)
    if (node.attributes.reduce !== 'sum' || place?.kind !== 'crossing' || !isSole) return
    const after =
      result.kind === 'crossing' ? this.crossings.get(result.name)!.terms : this.outside.sumsOf(result.name)
    if (after === undefined) return
    const crossing = this.crossings.get(place.name)!
    const terms = [...new Set([...node.attributes.axes, ...after])]
    this.crossings.set(place.name, { ...crossing, terms })
  }

  private outputsOf(piece: number): readonly GraphOutput[] {
    const { graph, root, maker } = this.flow
    const outputs = this.made.get(piece) ?? []
    // Ids that the piece makes itself, beside the rows that it places by them.
    const names = new Set(outputs.map(({ name }) => name))
    const ids = graph.outputs.filter(({ name, value }) => {
      const rows = this.outside.idsOf.get(name)
      if (rows === undefined || !names.has(rows)) return false
      const made = maker[root[value]!]
      return made !== undefined && (this.placement.pieceOf.get(made) ?? piece) === piece
    })
    return [...outputs, ...ids.filter(({ value }) => !this.isReadIn(root[value]!, piece))]
  }

  private isReadIn(value: ValueId, piece: number): boolean {
    const node = this.flow.maker[value]
    return this.held.has(value) && (node === undefined || this.placement.pieceOf.get(node) !== piece)
  }

  private pieceGraph(piece: number, outputs: readonly GraphOutput[]): Graph {
    const given = (value: ValueId): GraphInput | undefined => {
      const input = this.inputs.get(value)
      if (input !== undefined || !this.isReadIn(value, piece)) return input
      // What the phase makes itself, be it a cotangent: those that are inputs come from a later stage.
      const { name } = this.held.get(value)!.place
      return { name, kind: isFloat(this.type(value).dtype) ? 'activation' : 'data', value }
    }
    return pieceGraph(this.flow, given, outputs)
  }
}

/** Whether the rows of a value of that type divide as the collective divides them. */
function fits({ attributes: { operation, members } }: Communicate, { shape }: TensorType): boolean {
  const divides = operation === 'reduceScatter' || operation === 'allToAll'
  return !divides || (shape[0] ?? 1) % members === 0
}

/** Collectives of one kind that are issued together are one, of several parts. */
function joined(collectives: readonly CutCollective[]): CutCollective[] {
  const byKind = new Map<string, CutCollective>()
  for (const one of collectives) {
    const { operation, reduce, axes, root, shift, chunk, parts } = one
    const key = JSON.stringify([operation, reduce, axes, root, shift, chunk])
    const known = byKind.get(key)
    byKind.set(key, known === undefined ? one : { ...known, parts: [...known.parts, ...parts] })
  }
  return [...byKind.values()]
}

function append<K, V>(map: Map<K, V[]>, key: K, item: V): void {
  const known = map.get(key)
  if (known === undefined) map.set(key, [item])
  else known.push(item)
}
