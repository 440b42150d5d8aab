import { type BufferKind, bufferKinds } from '../../program/index.ts'
import {
  type SimulationResult,
  simulationTrace,
  type TrafficKind,
  trafficKinds,
} from '../../simulate/index.ts'
import { drawTimeline } from '../../trace/index.ts'
import { counted, formatBytes, formatCount, table } from '../format.ts'
import { formatShare } from '../schedule/measures.ts'
import { paint, paintPhase } from '../style.ts'
import { criticalLines, transferLines } from './pathReport.ts'
import { type Row, rowName, traceOfRows } from './rows.ts'
import type { Simulated } from './simulatePlan.ts'
import { idleText } from './summary.ts'
import { type TimeText, timeFormat, withUnit } from './times.ts'

const words: Readonly<Record<TrafficKind, string>> = {
  p2p: 'point to point',
  allReduce: 'all-reduce',
  allGather: 'all-gather',
  reduceScatter: 'reduce-scatter',
  other: 'other collectives',
}

/** What holds memory, in a word. */
const holders: Readonly<Record<BufferKind, string>> = {
  parameters: 'parameters',
  gatheredParameters: 'gathered',
  gradients: 'gradients',
  optimizerState: 'optimizer',
  residuals: 'residuals',
  activations: 'activations',
  cotangents: 'cotangents',
  other: 'other',
}

/** Rows of a table or drawing past which the rest is left to --json and --svg. */
const mostRows = 32

export function reportLines(simulated: Simulated, options: { readonly verbose: boolean }): string[] {
  const { result, rows, costs } = simulated
  const time = timeFormat(costs.unit)
  const shown = rows.slice(0, mostRows)
  const rest = rows.length - shown.length
  return [
    ...headLines(simulated),
    '',
    ...stepLines(simulated, time),
    '',
    ...idleTable(shown, time),
    '',
    ...memoryLines(simulated, shown, time, options.verbose),
    '',
    ...trafficLines(result),
    '',
    ...criticalLines(result, time, options.verbose),
    ...transferLines(simulated, time, options.verbose),
    '',
    ...timelineLines(simulated, shown),
    ...(rest === 0 ? [] : ['', `${counted(rest, 'further row')}: --json lists them, --svg draws them`]),
  ]
}

function headLines({ source, compiled, result, costs }: Simulated): string[] {
  const { model, plan } = compiled
  const { microbatches, samplesPerMicrobatch, sequence } = plan
  return [
    `${paint.bold(source)}: ${model.name} on ${counted(plan.ranks.length, 'rank')}, ${counted(microbatches, 'micro-batch', 'micro-batches')} of ${counted(samplesPerMicrobatch, 'sample')} of ${sequence} tokens`,
    `costs: ${costs.description}; streams: ${streams[result.engine]}`,
  ]
}

const streams: Readonly<Record<SimulationResult['engine'], string>> = {
  independent: 'side by side',
  turns: 'take turns on their resource',
  local: 'one thread a rank, as the local engine',
}

function stepLines({ result, costs }: Simulated, time: TimeText): string[] {
  return [`step  ${paint.bold(withUnit(costs.unit, time(result.stepSeconds)))}`, `idle  ${idleText(result)}`]
}

function idleTable(rows: readonly Row[], time: TimeText): string[] {
  return table(
    ['ranks', 'role', 'busy', 'idle', 'warm-up', 'drain', 'transfer', 'collective', 'other'],
    rows.map((row) => {
      const { busySeconds, idle } = row.result
      const parts = [
        busySeconds,
        idle.total,
        idle.warmup,
        idle.drain,
        idle.transfer,
        idle.collective,
        idle.other,
      ]
      return [rowName(row), row.role, ...parts.map(time)]
    }),
  )
}

/** The peak of each row and what holds it, by kind; the largest buffers of the fullest. */
function memoryLines(
  { compiled, rows, fullest }: Simulated,
  shown: readonly Row[],
  time: TimeText,
  verbose: boolean,
): string[] {
  const capacity = compiled.plan.deviceBytes
  const kinds = bufferKinds.filter((kind) => rows.some(({ result }) => result.peakByKind[kind] > 0))
  const lines = table(
    [
      'memory',
      'peak',
      ...(capacity === null ? [] : ['of device']),
      'at',
      ...kinds.map((kind) => holders[kind]),
      'in flight',
    ],
    shown.map((row) => {
      const { peakBytes, peakAt, peakByKind, peakActivations } = row.result
      return [
        rowName(row),
        formatBytes(peakBytes),
        ...(capacity === null ? [] : [formatShare(peakBytes / capacity, 0)]),
        time(peakAt),
        ...kinds.map((kind) => (peakByKind[kind] === 0 ? '–' : formatBytes(peakByKind[kind]))),
        String(peakActivations),
      ]
    }),
  )
  const named = (verbose ? rows.slice(0, mostRows) : [fullest]).map((row) => {
    const buffers = row.result.peakBuffers.slice(0, verbose ? undefined : 5)
    return `largest on ${rowName(row)}: ${buffers.map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(', ')}`
  })
  return [...lines, ...named]
}

function trafficLines({ bytes, calls }: SimulationResult): string[] {
  const used = trafficKinds.filter((kind) => kind !== 'other' || calls.other > 0)
  return table(
    ['traffic of all ranks', 'calls', 'bytes'],
    used.map((kind) => [words[kind], formatCount(calls[kind]), formatBytes(bytes[kind])]),
  )
}

function timelineLines({ result, costs }: Simulated, rows: readonly Row[]): string[] {
  const time = timeFormat(costs.unit)
  return drawTimeline(traceOfRows(simulationTrace(result), rows), {
    width: process.stdout.columns ?? 120,
    paint: paintPhase,
    rowName: (row) => rowName(rows[row]!),
    formatTime: (end) => withUnit(costs.unit, time(end)),
  }).map((line) => line.trimEnd())
}
