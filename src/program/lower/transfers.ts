import { canonicalHash, type Graph, GraphBuilder, type TensorType } from '../../graph/index.ts'
import type { GraphTask, Work } from '../types.ts'
import { consumers, names } from './compute.ts'
import type { Dag } from './dag.ts'
import type { StageInfo } from './stages.ts'

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
      const several = readers.length > 1
      const type = outputType(producer.piece.graph, name)
      // Integers have no cotangent, and a backward may not depend on one.
      const returns = producer.tasks.B.inputs.some((input) => input.name === `d.${name}`)
      for (let microbatch = 0; microbatch < microbatches; microbatch++) {
        forward(dag, producer, readers, name, microbatch)
        if (method === 'infer' || !returns) continue
        const arrived = readers.map((reader) => {
          const buffer = several ? names.cotangentFrom(name, reader.stage) : `d.${name}`
          if (reader.actor !== producer.actor) {
            dag.buffer(producer.actor, buffer, type)
            dag.add({
              kind: 'transfer',
              stream: 'backward',
              from: reader.actor,
              to: producer.actor,
              source: { buffer, microbatch },
              destination: { buffer, microbatch },
              latency: 0,
            })
          }
          return buffer
        })
        if (!several) continue
        dag.add({
          kind: 'run',
          actor: producer.actor,
          stream: 'compute',
          task: sumTask(type, arrived.length),
          reads: arrived.map((buffer) => ({ buffer, microbatch })),
          writes: [{ buffer: `d.${name}`, microbatch, mode: 'set' }],
          latency: 0,
        })
      }
    }
}

function forward(
  dag: Dag,
  producer: StageInfo,
  readers: readonly StageInfo[],
  name: string,
  microbatch: number,
): void {
  const sent = new Set<number>([producer.actor])
  for (const reader of readers) {
    if (sent.has(reader.actor)) continue
    sent.add(reader.actor)
    dag.add({
      kind: 'transfer',
      stream: 'forward',
      from: producer.actor,
      to: reader.actor,
      source: { buffer: name, microbatch },
      destination: { buffer: name, microbatch },
      latency: 0,
    })
  }
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
  const graph = builder.build()
  return {
    kind: 'graph',
    name: 'sum',
    hash: canonicalHash(graph),
    graph,
    reads: inputs.map((_, input) => ({ kind: 'tensor', input })),
    writes: [{ kind: 'tensor', output: 0 }],
  }
}
