/**
 * ZeroPP against the best plans built on 1F1B within the same memory, simulated on the kind of cluster that its paper
 * speaks of: `npm run bench:zeropp`. Prints, and with `--out FILE` writes, a page.
 */
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { MeshwrightError } from '../src/base/index.ts'
import { markdownTable } from '../src/cli/markdown.ts'
import { blockCosts, graphCost } from '../src/graph/index.ts'
import { type Model, modelFromShortName } from '../src/models/index.ts'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { collectiveWireBytes, lowerPlan, type Task } from '../src/program/index.ts'
import { type CostModel, type SimulationResult, simulateProgram } from '../src/simulate/index.ts'
import { type MeasuredPlan, measureHere } from './zeroppHere.ts'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'llama-2-13b' },
    sequence: { type: 'string', default: '2048' },
    microbatches: { type: 'string', default: '16' },
    out: { type: 'string' },
    rounds: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
  },
})

interface Wire {
  readonly latency: number
  readonly bytesPerSecond: number
}

interface Cluster {
  readonly title: string
  readonly inside: Wire
  readonly between: Wire
}

/**
 * Nodes of 8 A100: 312 Tflop/s in bf16, of which matrix products of this size reach about half. Plans have one dtype, and
 * bf16 is not among them: bytes count half.
 */
const node = {
  pipeline: 4,
  data: 8,
  flops: 312e12 * 0.5,
  memoryBytesPerSecond: 1.5e12,
  /** Of 80 GB, what is left beside libraries and the allocator. */
  memoryBytes: 70 * 2 ** 30,
  byteScale: 0.5,
} as const

const between = { latency: 10e-6, bytesPerSecond: 20e9 }
const clusters: readonly Cluster[] = [
  {
    title: 'NVLink within a node (a ring moves 230 GB/s each way), one 200 Gb/s port a GPU between nodes',
    inside: { latency: 15e-6, bytesPerSecond: 230e9 },
    between,
  },
  {
    title: 'PCIe within a node (20 GB/s), one 200 Gb/s port a GPU between nodes',
    inside: { latency: 20e-6, bytesPerSecond: 20e9 },
    between,
  },
]

function costs(cluster: Cluster): CostModel {
  const known = new Map<Task, number>()
  const timeOf = (task: Task, bytes: number): number => {
    if (task.kind !== 'graph') return (bytes * node.byteScale) / node.memoryBytesPerSecond
    const cost = graphCost(task.graph)
    // Products at the rate of products; what is elementwise goes by bytes, and is fused with what it follows, mostly.
    return Math.max(
      cost.flops / node.flops,
      task.name.startsWith('U') ? (cost.bytes * node.byteScale) / node.memoryBytesPerSecond : 0,
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
      return { busy: (bytes * node.byteScale) / wire.bytesPerSecond, latency: wire.latency, receive: 0 }
    },
    collective: (operation, payload, members, link) => {
      if (members === 1) return 0
      const wire = link === 0 ? cluster.inside : cluster.between
      return (
        wire.latency +
        (collectiveWireBytes(operation, payload, members) * node.byteScale) / wire.bytesPerSecond
      )
    },
    move: () => 0,
    link: (ranks) => (new Set(ranks.map((rank) => Math.floor(rank / node.data))).size === 1 ? 0 : 1),
  }
}

interface Candidate {
  readonly family: 'zeropp' | '1f1b'
  readonly name: string
  readonly schedule: Readonly<Record<string, unknown>>
  readonly zero: unknown
  readonly recompute: 'none' | 'full'
}

interface Setting {
  readonly model: Model
  readonly modelName: string
  readonly microbatches: number
  readonly cluster: Cluster
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

function simulate(candidate: Candidate, { model, modelName, microbatches, cluster }: Setting): Row | string {
  const { schedule, zero, recompute } = candidate
  const document = {
    meshwright: 1,
    model: modelName,
    mesh: { pipeline: node.pipeline, data: node.data },
    schedule,
    zero,
    recompute,
    batch: { samples: microbatches * node.data, microbatches },
    sequence: Number(values.sequence),
  }
  try {
    const graph = model.build({ batch: 1, sequence: document.sequence, dtype: 'f32' })
    const plan = resolvePlan(parsePlan(JSON.stringify(document)), model, {
      blockCosts: blockCosts(graph).blocks,
    })
    const result = simulateProgram(lowerPlan(plan, model), costs(cluster))
    const peakBytes = Math.max(...result.ranks.map((rank) => rank.peakBytes)) * node.byteScale
    return { ...candidate, result, peakBytes }
  } catch (error) {
    if (error instanceof MeshwrightError) return `${candidate.name}: ${error.message}`
    throw error
  }
}

const reading = `## Where it comes from

ZeRO-3 under 1F1B gathers a stage for every action; ZeroPP once for a unit and a direction, so it moves 1 / U of the bytes. Where links hide the gathers of single actions behind the computing of the one before, that saves nothing, and ZeroPP pays for its units: each fills and drains the pipeline, (P - 1) / (U V + P - 1) of its time. Where they do not, a 1F1B plan waits for collectives in every action, and the gain is that waiting. Plans with ZeRO-1 gather once a step, but hold all of their stages' parameters and gradients: they win where that fits.`

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
      ((result.bytes.allGather + result.bytes.reduceScatter + result.bytes.allReduce) * node.byteScale) /
        (node.pipeline * node.data),
    ),
  ]
}

interface Pair {
  readonly zeropp: Row
  /** The fastest of the others that needs no more memory. */
  readonly other: Row
  readonly gain: number
}

function compare(setting: Setting): Pair[] {
  const rows = candidates(setting.microbatches).flatMap((candidate) => {
    const row = simulate(candidate, setting)
    process.stderr.write(typeof row === 'string' ? `left out: ${row}\n` : `${cells(row).join('  ')}\n`)
    return typeof row === 'string' ? [] : [row]
  })
  const fitting = rows.filter(({ peakBytes }) => peakBytes <= node.memoryBytes)
  const fastest = (list: readonly Row[]): Row | undefined =>
    list.toSorted((a, b) => a.result.stepSeconds - b.result.stepSeconds)[0]
  const pairs = fitting
    .filter(({ family }) => family === 'zeropp')
    .flatMap((zeropp): Pair[] => {
      const other = fastest(
        fitting.filter(({ family, peakBytes }) => family === '1f1b' && peakBytes <= zeropp.peakBytes),
      )
      if (other === undefined) return []
      return [{ zeropp, other, gain: other.result.stepSeconds / zeropp.result.stepSeconds - 1 }]
    })
  const isBeaten = ({ zeropp }: Pair): boolean =>
    pairs.some(
      ({ zeropp: better }) =>
        better.peakBytes <= zeropp.peakBytes && better.result.stepSeconds < zeropp.result.stepSeconds,
    )
  return pairs.filter((pair) => !isBeaten(pair)).sort((a, b) => a.zeropp.peakBytes - b.zeropp.peakBytes)
}

function section({ title }: Cluster, pairs: readonly Pair[]): string {
  const header = [
    'plan',
    'step s',
    'warm-up, drain',
    'for transfers',
    'for collectives',
    'peak GiB',
    'wire GiB a rank',
  ]
  const lines = pairs.flatMap(({ zeropp, other, gain }) => [
    cells(zeropp),
    cells(other),
    [`gain of ZeroPP ${percent(gain)}`, '', '', '', '', '', ''],
  ])
  return [`## ${title}`, markdownTable(header, lines, (column) => column > 0)].join('\n\n')
}

function hereSection(measured: readonly MeasuredPlan[]): string {
  const header = ['plan', 'ranks', 'step ms', 'quartiles', 'gathers', 'gathered MiB a rank']
  const lines = measured.map(({ name, ranks, seconds, gathers, gatheredBytes }) => [
    name,
    String(ranks),
    (1000 * seconds.median).toFixed(1),
    `${(1000 * seconds.low).toFixed(1)} to ${(1000 * seconds.high).toFixed(1)}`,
    String(gathers),
    (gatheredBytes / 2 ** 20).toFixed(1),
  ])
  return [
    '## Measured here',
    `The local engine on ${cpus().length} cores of ${cpus()[0]?.model ?? 'an unknown processor'}, plans in turns, ${values.rounds} rounds. Ranks of one process share memory, so gathers are copies; with four ranks on two cores they also take turns.`,
    markdownTable(header, lines, (column) => column > 0),
  ].join('\n\n')
}

const microbatches = Number(values.microbatches)
const modelName = String(values.model)
const model = modelFromShortName(modelName)
const found = clusters.map((cluster) => ({
  cluster,
  pairs: compare({ model, modelName, microbatches, cluster }),
}))
const page = `${[
  '# ZeroPP against 1F1B at equal memory, simulated',
  'Written by `npm run bench:zeropp -- --out docs/zeropp.md`. Do not edit: run it again.',
  `${modelName}, sequence ${values.sequence}, ${microbatches} micro-batches of one sample a replica, on ${node.pipeline} nodes of ${node.data} A100 at half their peak rate: ZeRO within a node, the pipeline between nodes. Each pair is a ZeroPP plan on the frontier of time and memory, and under it the fastest plan built on 1F1B (plain or interleaved, ZeRO 1 to 3, with or without full recomputation) that needs no more memory. The columns in the middle say which share of all ranks' time goes by waiting; memory is parameters, gradients, optimizer state and activations of the fullest rank.`,
  ...found.map(({ cluster, pairs }) => section(cluster, pairs)),
  reading,
  hereSection(await measureHere(Number(values.rounds))),
].join('\n\n')}\n`
process.stdout.write(
  values.json
    ? `${JSON.stringify({
        schemaVersion: 1,
        clusters: found.map(({ cluster, pairs }) => ({
          title: cluster.title,
          pairs: pairs.map(({ zeropp, other, gain }) => ({ zeropp: zeropp.name, other: other.name, gain })),
        })),
      })}\n`
    : page,
)
if (values.out !== undefined) writeFileSync(values.out, page)
