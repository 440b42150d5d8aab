import type { Graph, GraphInput } from '../../graph/index.ts'
import { packBases } from '../packNames.ts'
import type { GraphTask, ReadPort, WritePort } from '../types.ts'
import {
  type Crossing,
  cotangentOf,
  crossingName,
  crossingOf,
  gradientOf,
  localBuffer,
  packBuffer,
} from './naming.ts'

/** What an operand of a run must be. */
export interface OperandRule {
  /** What the task calls it. */
  readonly what: string
  /** Names of buffers that it may be in. */
  readonly buffers: readonly string[]
  /**
   * `microbatch`: of the action's micro-batch; `version`: state as the step finds it; `window`: made for a window of
   * actions; `none`: one for the step.
   */
  readonly index: 'microbatch' | 'version' | 'window' | 'none'
  /** Whether it may be a part of the buffer: of packs, where tensors have their places. */
  readonly inParts?: true
}

/** Where the parameters of a role's stages are: in which packs, by their homes. */
export interface Homes {
  /** Packs that may have a parameter, as far as a task that stages share tells it by name. At least one. */
  readonly of: (parameter: string) => readonly string[]
  /** Whether the rank has but a shard of the pack, so that windows of actions work on copies made whole. */
  readonly isSharded: (home: string) => boolean
}

export interface TaskRules {
  readonly reads: readonly OperandRule[]
  readonly writes: readonly OperandRule[]
}

/**
 * What the operands of a task must be where it runs for `stage`. `stages` are all that share it; `gathers` says which
 * ids a parameter of the stage is gathered by, as far as its graphs show it; `homes` where parameters are that the
 * actor keeps for another of its stages.
 */
export function actionRules(
  task: GraphTask,
  stage: number,
  stages: ReadonlySet<number>,
  gathers: ReadonlyMap<string, ReadonlySet<string>>,
  homes: Homes,
): TaskRules {
  const names = new CrossingNames(task.graph, stage, stages)
  return {
    reads: task.reads.map((port, index) => readRule(task, port, index, names, gathers, homes)),
    writes: task.writes.map((port) => writeRule(task.graph, port, names, homes)),
  }
}

/** The packs that may have all of the parameters; where none has, those of the first. */
function homesOfAll(parameters: readonly string[], homes: Homes): readonly string[] {
  const [first = [], ...others] = parameters.map((name) => homes.of(name))
  const common = first.filter((home) => others.every((one) => one.includes(home)))
  return common.length > 0 ? common : first
}

function readRule(
  task: GraphTask,
  port: ReadPort,
  index: number,
  names: CrossingNames,
  gathers: ReadonlyMap<string, ReadonlySet<string>>,
  homes: Homes,
): OperandRule {
  if (port.kind === 'pack') {
    const parameters = port.entries.map(({ input }) => task.graph.inputs[input]!.name)
    const found = homesOfAll(parameters, homes)
    const isSharded = found.some(homes.isSharded)
    const base = isSharded ? packBases.gathered : packBases.parameters
    return {
      what: 'parameters',
      buffers: found.map((home) => packBuffer(base, home)),
      index: isSharded ? 'window' : 'version',
      inParts: true,
    }
  }
  const rule = port.kind === 'tensor' ? inputRule(task.graph.inputs[port.input]!, names) : undefined
  const ids = idsNames(task, index, gathers)?.flatMap((name) => names.buffers(name))
  // An operand may be an input of the graph and place rows of the gradients as well.
  if (rule !== undefined && (ids === undefined || ids.some((name) => rule.buffers.includes(name))))
    return rule
  return { what: 'ids', buffers: ids ?? [], index: 'microbatch' }
}

function inputRule({ name, kind }: GraphInput, names: CrossingNames): OperandRule {
  switch (kind) {
    case 'scalar':
      return { what: name, buffers: [name], index: 'none' }
    case 'parameter':
    case 'state':
      return { what: name, buffers: [packBuffer(name, String(names.stage))], index: 'version' }
    case 'data':
    case 'activation':
    case 'cotangent':
      return { what: name, buffers: names.buffers(name), index: 'microbatch' }
  }
}

function writeRule(graph: Graph, port: WritePort, names: CrossingNames, homes: Homes): OperandRule {
  if (port.kind === 'pack') {
    const outputs = [...port.entries.map(({ output }) => output), ...port.rows.map(({ values }) => values)]
    const parameters = outputs.map((output) => gradientOf(graph.outputs[output]!.name) ?? '')
    const found = homesOfAll(parameters, homes)
    const isSharded = found.some(homes.isSharded)
    const base = isSharded ? packBases.windowGradients : packBases.gradients
    return {
      what: 'gradients',
      buffers: found.map((home) => packBuffer(base, home)),
      index: isSharded ? 'window' : 'none',
      inParts: true,
    }
  }
  const { name } = graph.outputs[port.output]!
  const moves = localBuffer(name, 0) ?? crossingOf(cotangentOf(name) ?? name)
  // What is not handed on for the micro-batch is added over all of them.
  if (moves === undefined) return { what: name, buffers: [name], index: 'none' }
  const buffers = names.buffers(name)
  const received = cotangentOf(name) === undefined ? [] : buffers.map((buffer) => `${buffer}@${names.stage}`)
  return { what: name, buffers: [...buffers, ...received], index: 'microbatch' }
}

/** Ids that the rows which operand `index` places are gathered by; undefined where it places none. */
function idsNames(
  { graph, writes }: GraphTask,
  index: number,
  gathers: ReadonlyMap<string, ReadonlySet<string>>,
): string[] | undefined {
  const tables = writes
    .flatMap((port) => (port.kind === 'pack' ? port.rows : []))
    .filter(({ ids }) => 'read' in ids && ids.read === index)
    .map(({ values }) => gradientOf(graph.outputs[values]!.name) ?? '')
  if (tables.length === 0) return undefined
  const known = tables.flatMap((table) => [...(gathers.get(table) ?? [])])
  // A graph with another stage's names tells the kind of ids at least.
  return [...new Set(known.length > 0 ? known : [...gathers.values()].flatMap((ids) => [...ids]))]
}

/**
 * Parameters of a graph that are tables, and the batch's ids that they are gathered by. Where these are made in the graph,
 * of a part of a table say, all whole numbers that the graph gives may be they.
 */
export function gathersOf(graph: Graph): [table: string, ids: string][] {
  const inputs = new Map(graph.inputs.map((input) => [input.value, input]))
  return graph.nodes.flatMap(({ op, inputs: operands }): [string, string][] => {
    if (op !== 'gather') return []
    const [table, ids] = [inputs.get(operands[0]!), inputs.get(operands[1]!)]
    if (table?.kind !== 'parameter') return []
    if (ids?.kind === 'data') return [[table.name, ids.name]]
    return graph.outputs.flatMap(({ name, value }): [string, string][] =>
      graph.values[value]!.type.dtype === 'i32' ? [[table.name, name]] : [],
    )
  })
}

/** Buffers of values that cross stages, where the graph may have the names of another stage. */
class CrossingNames {
  readonly stage: number
  private readonly origins: readonly number[]
  /** The latest stage that a value comes from. */
  private readonly nearest: number

  constructor(graph: Graph, stage: number, stages: ReadonlySet<number>) {
    this.stage = stage
    const sent = [
      ...graph.outputs.map(({ name }) => crossingOf(name)),
      // What the action has made itself, and reads again, is no cotangent of what it sent.
      ...graph.inputs.map(({ name, kind }) =>
        kind === 'cotangent' ? crossingOf(cotangentOf(name) ?? '') : undefined,
      ),
    ].flatMap((value) => (value === undefined ? [] : [value.stage]))
    this.origins = sent.length > 0 ? [...new Set(sent)] : [...stages]
    const received = [
      ...graph.inputs.map(({ name }) => crossingOf(name)),
      ...graph.outputs.map(({ name }) => crossingOf(cotangentOf(name) ?? '')),
    ].flatMap((value) => (value === undefined || sent.includes(value.stage) ? [] : [value.stage]))
    this.nearest = Math.max(-1, ...received)
  }

  buffers(name: string): string[] {
    const own = localBuffer(name, this.stage)
    if (own !== undefined) return [own]
    const value = cotangentOf(name)
    const found = crossingOf(value ?? name)
    if (found === undefined) return [name]
    const prefix = value === undefined ? '' : 'd.'
    return this.places(found).map((place) => prefix + crossingName(place))
  }

  /** The neighbour's value is as far away from every stage that shares the graph; one from further back may be the same. */
  private places({ stage, suffix }: Crossing): Crossing[] {
    const shifted = this.origins.map((origin) => stage + this.stage - origin)
    const isFarther = stage < this.nearest
    return [...new Set(isFarther ? [...shifted, stage] : shifted)].map((place) => ({ stage: place, suffix }))
  }
}
