import { MeshwrightError } from '../base/index.ts'
import type { Stream } from '../program/index.ts'
import type { Trace, TraceEvent, TraceKind } from './types.ts'
import { chromeFormat, chromeVersion } from './writeChrome.ts'

const kinds: readonly TraceKind[] = ['run', 'exchange', 'collective', 'move']
const resources: readonly Stream['resource'][] = ['compute', 'network', 'host', 'cpu']
const metadataNames: readonly string[] = [
  'process_name',
  'process_sort_index',
  'thread_name',
  'thread_sort_index',
]
/** Bounds what a hostile file makes us allocate. */
const rankLimit = 1_000_000
const streamLimit = 1000
const eventLimit = 20_000_000

/**
 * Reads what `writeChromeTrace` wrote, times to the nanosecond. Strict: any other key, type or range is a
 * MeshwrightError `TRACE_FORMAT` that says where.
 */
export function readChromeTrace(text: string): Trace {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (error) {
    throw new MeshwrightError('TRACE_FORMAT', `not JSON: ${(error as Error).message}`, { cause: error })
  }
  const { displayTimeUnit, otherData, traceEvents } = fields(document, '', [
    'displayTimeUnit',
    'otherData',
    'traceEvents',
  ])
  if (displayTimeUnit !== 'ms') throw wrong('displayTimeUnit', 'must be "ms"')
  const head = fields(otherData, 'otherData', ['format', 'version', 'ranks', 'streams'])
  if (head['format'] !== chromeFormat) throw wrong('otherData.format', `must be "${chromeFormat}"`)
  if (head['version'] !== chromeVersion) throw wrong('otherData.version', `must be ${chromeVersion}`)
  const ranks = whole(head['ranks'], 'otherData.ranks', rankLimit)
  const streams = list(head['streams'], 'otherData.streams', streamLimit).map((stream, index): Stream => {
    const path = `otherData.streams[${index}]`
    const { name, resource } = fields(stream, path, ['name', 'resource'])
    return { name: string(name, `${path}.name`), resource: oneOf(resource, resources, `${path}.resource`) }
  })
  const events: TraceEvent[] = []
  list(traceEvents, 'traceEvents', eventLimit).forEach((entry, index) => {
    const path = `traceEvents[${index}]`
    const event = readEvent(entry, path, ranks, streams.length)
    if (event !== undefined) events.push(event)
  })
  return { ranks, streams, events }
}

function readEvent(entry: unknown, path: string, ranks: number, streams: number): TraceEvent | undefined {
  if (record(entry, path)['ph'] === 'M') {
    const { name } = fields(entry, path, ['name', 'ph', 'pid', 'tid', 'args'])
    oneOf(name, metadataNames, `${path}.name`)
    return undefined
  }
  const event = fields(entry, path, ['name', 'cat', 'ph', 'pid', 'tid', 'ts', 'dur', 'args'])
  if (event['ph'] !== 'X') throw wrong(`${path}.ph`, 'must be "M" or "X"')
  const args = fields(
    event['args'],
    `${path}.args`,
    [],
    ['phase', 'stage', 'microbatch', 'slice', 'bytes', 'wait', 'instruction', 'ids'],
  )
  const count = (key: string): number | undefined =>
    args[key] === undefined ? undefined : whole(args[key], `${path}.args.${key}`, Number.MAX_SAFE_INTEGER)
  const thread = whole(event['tid'], `${path}.tid`, Number.MAX_SAFE_INTEGER)
  if (streams === 0) throw wrong(path, 'must be on a stream, and there is none')
  const start = nanoseconds(event['ts'], `${path}.ts`)
  const duration = nanoseconds(event['dur'], `${path}.dur`)
  const wait = args['wait'] === undefined ? undefined : nanoseconds(args['wait'], `${path}.args.wait`)
  if (wait !== undefined && wait > duration) throw wrong(`${path}.args.wait`, 'must be within the event')
  const ids = args['ids'] === undefined ? undefined : list(args['ids'], `${path}.args.ids`, eventLimit)
  return compact({
    rank: below(whole(event['pid'], `${path}.pid`, rankLimit), ranks, `${path}.pid`),
    stream: thread % streams,
    kind: oneOf(event['cat'], kinds, `${path}.cat`),
    name: string(event['name'], `${path}.name`),
    phase: args['phase'] === undefined ? undefined : string(args['phase'], `${path}.args.phase`),
    stage: count('stage'),
    microbatch: count('microbatch'),
    slice: count('slice'),
    start: start / 1e9,
    end: (start + duration) / 1e9,
    wait: wait === undefined ? undefined : wait / 1e9,
    bytes: count('bytes'),
    instruction: count('instruction'),
    ids: ids?.map((id, at) => whole(id, `${path}.args.ids[${at}]`, Number.MAX_SAFE_INTEGER)),
  })
}

/** Leaves out what is undefined. */
function compact(event: { readonly [K in keyof TraceEvent]-?: TraceEvent[K] | undefined }): TraceEvent {
  return Object.fromEntries(
    Object.entries(event).filter(([, value]) => value !== undefined),
  ) as unknown as TraceEvent
}

function wrong(path: string, message: string): MeshwrightError {
  return new MeshwrightError('TRACE_FORMAT', `${path === '' ? 'the trace' : path} ${message}`, {
    at: { path },
  })
}

function record(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(path, 'must be an object')
  return value as Readonly<Record<string, unknown>>
}

function fields(
  value: unknown,
  path: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Readonly<Record<string, unknown>> {
  const object = record(value, path)
  for (const key of required) if (object[key] === undefined) throw wrong(path, `lacks "${key}"`)
  for (const key of Object.keys(object))
    if (!required.includes(key) && !optional.includes(key)) throw wrong(path, `has an unknown key "${key}"`)
  return object
}

function list(value: unknown, path: string, limit: number): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(path, 'must be an array')
  if (value.length > limit) throw wrong(path, `has more than ${limit} entries`)
  return value
}

function string(value: unknown, path: string): string {
  if (typeof value !== 'string') throw wrong(path, 'must be a string')
  return value
}

function oneOf<T extends string>(value: unknown, options: readonly T[], path: string): T {
  const found = options.find((option) => option === value)
  if (found === undefined) throw wrong(path, `must be one of ${options.join(', ')}`)
  return found
}

function whole(value: unknown, path: string, limit: number): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0 || value > limit)
    throw wrong(path, 'must be a whole number that is not negative')
  return value
}

function below(value: number, limit: number, path: string): number {
  if (value >= limit) throw wrong(path, `must be below ${limit}`)
  return value
}

/** Microseconds in the file. */
function nanoseconds(value: unknown, path: string): number {
  if (typeof value !== 'number' || !(value >= 0 && value < 1e13)) throw wrong(path, 'must be a time')
  return Math.round(value * 1000)
}
