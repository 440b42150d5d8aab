import { bufferKinds } from '../../program/index.ts'
import type { TimeUnit } from '../../scene/index.ts'
import {
  type CriticalStep,
  type SimulationResult,
  simulationTrace,
  trafficKinds,
} from '../../simulate/index.ts'
import { drawTimeline, formatSeconds } from '../../trace/index.ts'
import { counted, formatBytes, formatCount, table } from '../format.ts'
import { formatShare, formatTime } from '../schedule/measures.ts'
import { paint, paintPhase } from '../style.ts'
import { type Row, rowName, traceOfRows } from './rows.ts'
import type { Simulated } from './simulatePlan.ts'
import {
  type CriticalPart,
  criticalParts,
  criticalReasons,
  idleText,
  instructionText,
  transfersOf,
} from './summary.ts'

const words = {
  p2p: 'point to point',
  allReduce: 'all-reduce',
  allGather: 'all-gather',
  reduceScatter: 'reduce-scatter',
  other: 'other collectives',
} as const

/** What a step of the critical path waited for, by why it began no earlier. */
const reasons: Readonly<Record<CriticalStep['reason'], string>> = {
  start: 'nothing',
  data: 'data',
  order: 'its turn in the stream',
  resource: 'another stream of its resource',
  slot: 'room in the channel',
  collective: 'other members',
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

type TimeText = (time: number) => string

/** Times in the words of their unit; units have no name in tables. */
function timeFormat(unit: TimeUnit): TimeText {
  return unit === 'units' ? formatTime : (seconds) => formatSeconds(seconds, 4)
}

function withUnit(unit: TimeUnit, text: string): string {
  return unit === 'units' ? `${text} units` : text
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
      ...kinds.map((kind) => kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)),
      'micro-batches',
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

function criticalLines(result: SimulationResult, time: TimeText, verbose: boolean): string[] {
  const { criticalPath, stepSeconds } = result
  const share = (seconds: number): string => (stepSeconds > 0 ? formatShare(seconds / stepSeconds, 1) : '–')
  const parts = criticalParts(result).filter(({ seconds }) => seconds > 0)
  const waited = Object.entries(criticalReasons(result))
    .filter(([reason, seconds]) => reason !== 'start' && seconds > 0)
    .sort((a, b) => b[1] - a[1])
    .map(([reason, seconds]) => `${reasons[reason as CriticalStep['reason']]} ${share(seconds)}`)
  return [
    ...table(
      ['critical path', 'steps', 'time', 'share'],
      parts.map((part) => [partName(part), formatCount(part.steps), time(part.seconds), share(part.seconds)]),
    ),
    ...(waited.length === 0 ? [] : [`its steps waited for ${waited.join(', ')}`]),
    ...(verbose ? ['', ...firstSteps(result, criticalPath.slice(0, 12), time)] : []),
  ]
}

function partName({ kind, phase }: CriticalPart): string {
  if (kind === 'compute') return phase ?? 'other runs'
  return { transfer: 'transfers', collective: 'collectives', move: 'moves' }[kind]
}

function firstSteps(result: SimulationResult, steps: readonly CriticalStep[], time: TimeText): string[] {
  return table(
    ['first steps', 'from', 'time', 'what', 'waited for'],
    steps.map(({ rank, instruction, start, seconds, reason }) => [
      `rank ${rank}`,
      time(start),
      time(seconds),
      instructionText(result, rank, instruction),
      reasons[reason],
    ]),
  )
}

function transferLines({ result, rows }: Simulated, time: TimeText, verbose: boolean): string[] {
  const { count, withoutSlack, least } = transfersOf(result, rows, verbose ? 12 : 3)
  if (count === 0) return []
  return [
    '',
    ...table(
      ['least slack', 'to', 'what', 'there at', 'slack', 'before it is needed'],
      least.map(({ from, to, send, arrival, local, total }) => [
        `rank ${from}`,
        `rank ${to}`,
        send,
        time(arrival),
        time(total),
        time(local),
      ]),
    ),
    `${formatCount(withoutSlack)} of ${counted(count, 'transfer')} make the step longer if they come later`,
  ]
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
