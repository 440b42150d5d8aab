import { type Graph, GraphBuilder, type TensorType } from '../../graph/index.ts'
import type { GraphTask, Work } from '../types.ts'
import type { Dag } from './dag.ts'
import { names } from './names.ts'
import type { StageInfo } from './packs.ts'
import { consumers } from './stageTask.ts'
import { plainTask } from './tasks.ts'

/**
 * Pass 2: a transfer for each value that one actor makes and another reads, once for each micro-batch and reader
 * (JaxPP, step 7). Activations go forward, their cotangents back; a value with several consumers has its cotangents
 * added where it was made.
 */
export function lowerTransfers(
  dag: Dag,
  stages: readonly StageInfo[],
  microbatches: number,
  method: Work['method'],
): void {
  for (const producer of stages)
    for (const { name } of producer.piece.sends) {
      const readers = consumers(stages, name).map((stage) => stages[stage]!)
      // Integers have no cotangent, and a backward may not depend on one.
      const returns = producer.tasks.B.inputs.some((input) => input.name === `d.${name}`)
      const targets = new Set(readers.map(({ actor }) => actor))
      targets.delete(producer.actor)
      const back = method === 'infer' || !returns ? undefined : cotangents(dag, producer, readers, name)
      for (let microbatch = 0; microbatch < microbatches; microbatch++) {
        for (const to of targets) forward(dag, producer.actor, to, name, microbatch)
        if (back !== undefined) backward(dag, producer, back, microbatch)
      }
    }
}

/** How the cotangents of one value come to its producer. */
interface Cotangents {
  /** Buffer that each reader's cotangent is in, on the reader's actor and on the producer's. */
  readonly arrive: readonly { readonly from: number; readonly buffer: string }[]
  /** What adds several of them. */
  readonly sum?: { readonly task: GraphTask; readonly buffer: string }
}

function cotangents(dag: Dag, producer: StageInfo, readers: readonly StageInfo[], name: string): Cotangents {
  const type = outputType(producer.forward, name)
  const total = `d.${name}`
  const several = readers.length > 1
  const arrive = readers.map(({ stage, actor }) => {
    const buffer = several ? names.cotangentFrom(name, stage) : total
    if (actor !== producer.actor) dag.buffer(producer.actor, buffer, type)
    return { from: actor, buffer }
  })
  return several ? { arrive, sum: { task: sumTask(type, readers.length), buffer: total } } : { arrive }
}

function backward(dag: Dag, producer: StageInfo, { arrive, sum }: Cotangents, microbatch: number): void {
  for (const { from, buffer } of arrive)
    if (from !== producer.actor)
      dag.add({
        kind: 'transfer',
        stream: 'backward',
        from,
        to: producer.actor,
        source: { buffer, microbatch },
        destination: { buffer, microbatch },
        latency: 0,
      })
  if (sum === undefined) return
  dag.add({
    kind: 'run',
    actor: producer.actor,
    stream: 'compute',
    task: sum.task,
    reads: arrive.map(({ buffer }) => ({ buffer, microbatch })),
    writes: [{ buffer: sum.buffer, microbatch, mode: 'set' }],
    latency: 0,
  })
}

function forward(dag: Dag, from: number, to: number, name: string, microbatch: number): void {
  const value = { buffer: name, microbatch }
  dag.add({ kind: 'transfer', stream: 'forward', from, to, source: value, destination: value, latency: 0 })
}

function outputType(graph: Graph, name: string): TensorType {
  const output = graph.outputs.find((candidate) => candidate.name === name)!
  return graph.values[output.value]!.type
}

/** Adds `count` tensors. */
function sumTask(type: TensorType, count: number): GraphTask {
  const builder = new GraphBuilder()
  const inputs = Array.from({ length: count }, (_, index) => builder.input(`in${index}`, 'cotangent', type))
  builder.output(
    'sum',
    inputs.reduce((sum, input) => builder.one('add', [sum, input], {})),
  )
  return plainTask('sum', builder.build())
}
