import type { Locate } from './check.ts'
import { isMapping, type Path } from './describe.ts'
import type { PlanProblem } from './problems.ts'

/** Short names that people know, and what they stand for. At the top, or in the mapping they belong to. */
export const aliases: Readonly<Record<string, readonly [string, string]>> = {
  pp: ['mesh', 'pipeline'],
  dp: ['mesh', 'data'],
  cp: ['mesh', 'context'],
  tp: ['mesh', 'tensor'],
  ep: ['mesh', 'expert'],
  etp: ['mesh', 'expertTensor'],
  gbs: ['batch', 'samples'],
  mbs: ['batch', 'mbs'],
  lr: ['learningRate', 'peak'],
}

/** The path that a short name stands for: `pp` and `mesh.pp` are `mesh.pipeline`. */
export function expandAlias(path: readonly string[]): readonly string[] {
  const [first = '', second] = path
  const meant = Object.hasOwn(aliases, first) && path.length === 1 ? aliases[first]! : undefined
  if (meant !== undefined) return meant
  const inner =
    second !== undefined && path.length === 2 && Object.hasOwn(aliases, second) ? aliases[second]! : undefined
  return inner !== undefined && inner[0] === first ? inner : path
}

export interface Expanded {
  readonly document: unknown
  /** Where a path of the new document came from. */
  readonly origin: (path: Path) => Path
  readonly problems: readonly PlanProblem[]
}

/**
 * A document without short names. `mbs`, the samples of a micro-batch on one replica, becomes the number of
 * micro-batches; that needs every stage to have as many replicas.
 */
export function expandAliases(document: unknown, locate: Locate): Expanded {
  if (!isMapping(document)) return { document, origin: (path) => path, problems: [] }
  const problems: PlanProblem[] = []
  const origins = new Map<string, Path>()
  const top: Record<string, unknown> = {}
  const copyOf = (key: string): Record<string, unknown> | undefined => {
    const value = Object.hasOwn(top, key) ? top[key] : undefined
    if (value === undefined) return Object.hasOwn(top, key) ? undefined : {}
    if (key === 'learningRate' && typeof value === 'number') return { peak: value }
    return isMapping(value) ? { ...value } : undefined
  }
  const found: { from: readonly string[]; value: unknown }[] = []
  for (const [key, value] of Object.entries(document)) {
    if (Object.hasOwn(aliases, key)) found.push({ from: [key], value })
    else define(top, key, value)
  }
  for (const [short, [group]] of Object.entries(aliases)) {
    const mapping = Object.hasOwn(top, group) ? top[group] : undefined
    if (!isMapping(mapping) || !Object.hasOwn(mapping, short)) continue
    const { [short]: value, ...rest } = mapping
    top[group] = rest
    found.push({ from: [group, short], value })
  }
  for (const { from, value } of found) {
    const [group, key] = expandAlias(from) as [string, string]
    const mapping = copyOf(group)
    // A group that is no mapping is a problem of its own, which the schema reports.
    if (mapping === undefined) continue
    if (Object.hasOwn(mapping, key)) {
      problems.push({
        code: 'PLAN_DUPLICATE_KEY',
        message: `${group}.${key} is given twice`,
        at: locate(from, 'key'),
        hint: `${from.join('.')} is short for it`,
      })
      continue
    }
    mapping[key] = value
    top[group] = mapping
    origins.set(`${group}.${key}`, from)
  }
  microbatchesOf(top, origins, locate, problems)
  const origin = (path: Path): Path => {
    const from = origins.get(path.slice(0, 2).join('.'))
    return from === undefined ? path : [...from, ...path.slice(2)]
  }
  return { document: top, origin, problems }
}

/** Turns `batch.mbs` into `batch.microbatches`. */
function microbatchesOf(
  top: Record<string, unknown>,
  origins: Map<string, Path>,
  locate: Locate,
  problems: PlanProblem[],
): void {
  const batch = top['batch']
  if (!isMapping(batch) || !Object.hasOwn(batch, 'mbs')) return
  const { mbs, ...rest } = batch
  top['batch'] = rest
  const from = origins.get('batch.mbs')!
  const problem = (message: string, hint: string): void => {
    problems.push({ code: 'PLAN_VALUE', message, at: locate(from, 'value'), hint })
  }
  const mesh = isMapping(top['mesh']) ? top['mesh'] : {}
  const replicas = mesh['data'] ?? 1
  const samples = rest['samples'] ?? 16
  if (Object.hasOwn(rest, 'microbatches')) {
    problem('batch.microbatches is given beside mbs', 'mbs decides it: leave one of them out')
    return
  }
  if (typeof mbs !== 'number' || !Number.isSafeInteger(mbs) || mbs < 1) {
    problem(
      `expected a whole number from 1, got ${JSON.stringify(mbs)?.slice(0, 60)}`,
      'mbs is the samples of a micro-batch on one replica',
    )
    return
  }
  if (typeof replicas !== 'number') {
    problem('mbs does not say enough where actors have replicas of their own', 'give batch.microbatches')
    return
  }
  if (typeof samples !== 'number' || !Number.isInteger(samples) || !Number.isInteger(replicas)) return
  const count = samples / (mbs * replicas)
  if (!Number.isInteger(count))
    problem(
      `${samples} samples are no whole number of micro-batches of ${mbs} on ${replicas} replicas`,
      `batch.samples is a multiple of ${mbs * replicas}`,
    )
  else {
    top['batch'] = { ...rest, microbatches: count }
    origins.set('batch.microbatches', from)
  }
}

/** `__proto__` in a document is a key like any other. */
function define(record: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true })
}
