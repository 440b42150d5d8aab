/**
 * ZeroPP against the best plans built on 1F1B within the same memory, simulated on the kind of cluster that its paper
 * speaks of: `npm run bench:zeropp`. Prints, and with `--out FILE` writes, a page.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { MeshwrightError } from '../src/base/index.ts'
import { blockCosts, graphCost } from '../src/graph/index.ts'
import { type Model, modelFromShortName } from '../src/models/index.ts'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { collectiveWireBytes, lowerPlan, type Task } from '../src/program/index.ts'
import { type CostModel, type SimulationResult, simulateProgram } from '../src/simulate/index.ts'
import { markdownTable } from './page.ts'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'llama-2-13b' },
    sequence: { type: 'string', default: '2048' },
    microbatches: { type: 'string', default: '16' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})

/**
 * Nodes of 8 A100: 312 Tflop/s in bf16, of which matrix products of this size reach about half; NVLink inside a node,
 * 600 GB/s both ways together, of which a ring moves about 230 GB/s each way; one 200 Gb/s port for each GPU pair
 * between nodes. Plans have one dtype, and bf16 is not among them: bytes count half.
 */
const cluster = {
  pipeline: 4,
  data: 8,
  flops: 312e12 * 0.5,
  memoryBytesPerSecond: 1.5e12,
  inside: { latency: 15e-6, bytesPerSecond: 230e9 },
  between: { latency: 10e-6, bytesPerSecond: 20e9 },
  byteScale: 0.5,
} as const

function costs(): CostModel {
  const known = new Map<Task, number>()
  const timeOf = (task: Task, bytes: number): number => {
    if (task.kind !== 'graph') return (bytes * cluster.byteScale) / cluster.memoryBytesPerSecond
    const cost = graphCost(task.graph)
    // Products at the rate of products; what is elementwise goes by bytes, and is fused with what it follows, mostly.
    return Math.max(
      cost.flops / cluster.flops,
      task.name.startsWith('U') ? (cost.bytes * cluster.byteScale) / cluster.memoryBytesPerSecond : 0,
    )
  }
  return {
    name: 'A100 nodes',
    run: ({ task, readBytes }) => {
      const seconds = known.get(task) ?? timeOf(task, readBytes)
      known.set(task, seconds)
      return seconds
    },
    transfer: (bytes, link) => {
      const wire = link === 0 ? cluster.inside : cluster.between
      return { busy: (bytes * cluster.byteScale) / wire.bytesPerSecond, latency: wire.latency, receive: 0 }
    },
    collective: (operation, payload, members, link) => {
      if (members === 1) return 0
      const wire = link === 0 ? cluster.inside : cluster.between
      return (
        wire.latency +
        (collectiveWireBytes(operation, payload, members) * cluster.byteScale) / wire.bytesPerSecond
      )
    },
    move: () => 0,
    link: (ranks) => (new Set(ranks.map((rank) => Math.floor(rank / cluster.data))).size === 1 ? 0 : 1),
  }
}

interface Candidate {
  readonly family: 'zeropp' | '1f1b'
  readonly name: string
  readonly schedule: Readonly<Record<string, unknown>>
  readonly zero: unknown
  readonly recompute: 'none' | 'full'
}

interface Row extends Candidate {
  readonly result: SimulationResult
  readonly peakBytes: number
}

function candidates(microbatches: number): Candidate[] {
  const made: Candidate[] = []
  const recomputes = ['none', 'full'] as const
  for (const recompute of recomputes) {
    for (const chunks of [1, 2, 5])
      for (const unit of [4, 8, 16].filter((size) => size <= microbatches))
        for (const backward of ['whole', 'split'])
          made.push({
            family: 'zeropp',
            name: `zeropp chunks ${chunks} unit ${unit} ${backward}`,
            schedule: { name: 'zeropp', chunks, unit, backward },
            zero: { stage: 3, keepLast: true },
            recompute,
          })
    const schedules: [string, Record<string, unknown>][] = [
      ['1f1b', { name: '1f1b' }],
      ['interleaved 2', { name: 'interleaved-1f1b', chunks: 2 }],
      ['interleaved 5', { name: 'interleaved-1f1b', chunks: 5 }],
    ]
    for (const [name, schedule] of schedules)
      for (const [zeroName, zero] of [
        ['ZeRO-1', 1],
        ['ZeRO-2', 2],
        ['ZeRO-3', { stage: 3, keepLast: true }],
      ] as const)
        made.push({ family: '1f1b', name: `${name}, ${zeroName}`, schedule, zero, recompute })
  }
  return made
}

function simulate(candidate: Candidate, model: Model, modelName: string, microbatches: number): Row | string {
  const { schedule, zero, recompute } = candidate
  const document = {
    meshwright: 1,
    model: modelName,
    mesh: { pipeline: cluster.pipeline, data: cluster.data },
    schedule,
    zero,
    recompute,
    batch: { samples: microbatches * cluster.data, microbatches },
    sequence: Number(values.sequence),
  }
  try {
    const graph = model.build({ batch: 1, sequence: document.sequence, dtype: 'f32' })
    const plan = resolvePlan(parsePlan(JSON.stringify(document)), model, {
      blockCosts: blockCosts(graph).blocks,
    })
    const result = simulateProgram(lowerPlan(plan, model), costs())
    const peakBytes = Math.max(...result.ranks.map((rank) => rank.peakBytes)) * cluster.byteScale
    return { ...candidate, result, peakBytes }
  } catch (error) {
    if (error instanceof MeshwrightError) return `${candidate.name}: ${error.message}`
    throw error
  }
}

const gib = (bytes: number): string => (bytes / 2 ** 30).toFixed(1)
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

/** Of all ranks' time: where it goes that is not computing. */
function idleShares({
  ranks,
  stepSeconds,
}: SimulationResult): Record<'pipeline' | 'transfer' | 'collective', number> {
  const total = ranks.reduce((sum, { copies }) => sum + copies, 0) * stepSeconds
  const share = (of: (idle: (typeof ranks)[number]['idle']) => number): number =>
    ranks.reduce((sum, { copies, idle }) => sum + copies * of(idle), 0) / total
  return {
    pipeline: share(({ warmup, drain }) => warmup + drain),
    transfer: share(({ transfer }) => transfer),
    collective: share(({ collective }) => collective),
  }
}

function cells({ name, recompute, result, peakBytes }: Row): string[] {
  const idle = idleShares(result)
  return [
    recompute === 'none' ? name : `${name}, recompute full`,
    result.stepSeconds.toFixed(3),
    percent(idle.pipeline),
    percent(idle.transfer),
    percent(idle.collective),
    gib(peakBytes),
    gib(
      ((result.bytes.allGather + result.bytes.reduceScatter + result.bytes.allReduce) * cluster.byteScale) /
        (cluster.pipeline * cluster.data),
    ),
  ]
}

const microbatches = Number(values.microbatches)
const modelName = String(values.model)
const model = modelFromShortName(modelName)
const rows: Row[] = []
for (const candidate of candidates(microbatches)) {
  const row = simulate(candidate, model, modelName, microbatches)
  if (typeof row === 'string') process.stderr.write(`left out: ${row}\n`)
  else {
    rows.push(row)
    process.stderr.write(`${cells(row).join('  ')}\n`)
  }
}

const fastest = (list: readonly Row[]): Row | undefined =>
  list.toSorted((a, b) => a.result.stepSeconds - b.result.stepSeconds)[0]
/** For each ZeroPP plan, the fastest of the others that needs no more memory. */
const pairs = rows
  .filter(({ family }) => family === 'zeropp')
  .flatMap((zeropp) => {
    const other = fastest(
      rows.filter(({ family, peakBytes }) => family === '1f1b' && peakBytes <= zeropp.peakBytes),
    )
    return other === undefined
      ? []
      : [{ zeropp, other, gain: other.result.stepSeconds / zeropp.result.stepSeconds - 1 }]
  })
// At each memory only the fastest ZeroPP is worth a line.
const frontier = pairs
  .filter(
    ({ zeropp }) =>
      !pairs.some(
        ({ zeropp: better }) =>
          better.peakBytes <= zeropp.peakBytes && better.result.stepSeconds < zeropp.result.stepSeconds,
      ),
  )
  .sort((a, b) => a.zeropp.peakBytes - b.zeropp.peakBytes)

const header = [
  'plan',
  'step s',
  'warm-up, drain',
  'for transfers',
  'for collectives',
  'peak GiB',
  'wire GiB a rank',
]
const lines = frontier.flatMap(({ zeropp, other, gain }) => [
  ...[cells(zeropp), cells(other)],
  [`gain ${percent(gain)}`, '', '', '', '', '', ''],
])
const page = `${[
  '# ZeroPP against 1F1B at equal memory, simulated',
  `${modelName}, sequence ${values.sequence}, ${microbatches} micro-batches of one sample a replica, on ${cluster.pipeline} nodes of ${cluster.data} A100: ZeRO within a node, the pipeline between nodes. Each pair is a ZeroPP plan on the frontier of time and memory, and the fastest plan built on 1F1B (plain or interleaved, ZeRO 1 to 3, with or without recomputation) that needs no more memory. Columns in the middle: share of all ranks' time spent waiting.`,
  markdownTable(header, lines, (column) => column > 0),
].join('\n\n')}\n`
process.stdout.write(
  values.json
    ? `${JSON.stringify({ schemaVersion: 1, pairs: frontier.map(({ zeropp, other, gain }) => ({ zeropp: zeropp.name, other: other.name, gain })) })}\n`
    : page,
)
if (values.out !== undefined) writeFileSync(values.out, page)
