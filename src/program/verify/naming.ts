import { packBases } from '../packNames.ts'

/**
 * What names mean in a Program. A graph names its inputs and outputs by what they are; the buffers that a run binds them
 * to carry the same names, with the stage where a graph leaves it out: graphs of equal stages are one task, which has the
 * names of one of them.
 */

/** `x2` and `x2.1`: values that stage 2 sends. */
export interface Crossing {
  readonly stage: number
  readonly suffix: string
}

const crossing = /^x(\d{1,9})((?:\.\d+)?)$/
const local = /^([hrkt])(\d+)$/

export function crossingOf(name: string): Crossing | undefined {
  const match = crossing.exec(name)
  return match === null ? undefined : { stage: Number(match[1]), suffix: match[2]! }
}

export function crossingName({ stage, suffix }: Crossing): string {
  return `x${stage}${suffix}`
}

/** The value that `d.x2` is the cotangent of. */
export function cotangentOf(name: string): string | undefined {
  return name.startsWith('d.') ? name.slice(2) : undefined
}

/**
 * Buffer of a residual `r3`, of what a recomputation takes, `h3`, of what a backward for inputs keeps, `k3`, or of what
 * crosses between parts of an action, `t3`, of a stage: `r1.3`.
 */
export function localBuffer(name: string, stage: number): string | undefined {
  const match = local.exec(name)
  return match === null ? undefined : `${match[1]}${stage}.${match[2]}`
}

/** Buffer of a state (`w`, `m`, …) or of the gradients (`g`) of a pack: `w1`, or `w1.2` of the third that stage 1 has. */
export function packBuffer(base: string, home: string): string {
  return `${base}${home}`
}

/** `w1` as `w` and home 1, `w1.2` as `w` and home 1.2, both of stage 1; undefined for other names. */
export function splitPackBuffer(
  name: string,
): { readonly base: string; readonly home: string; readonly stage: number } | undefined {
  const match = /^([A-Za-z]+)((\d{1,9})(?:\.\d{1,9})?)$/.exec(name)
  return match === null ? undefined : { base: match[1]!, home: match[2]!, stage: Number(match[3]) }
}

/** The parameter that an output of a graph is a gradient of, as a whole or as rows. */
export function gradientOf(output: string): string | undefined {
  const match = /^g\.(.+?)(?:\.rows\d+)?$/.exec(output)
  return match?.[1]
}

/** `h.1.mlp` as `h.*.mlp`: alike for parameters of the same kind; a name without a number as it is. */
export function withoutBlock(name: string): string {
  const parts = name.split('.')
  const number = parts.findIndex((part) => /^\d{1,9}$/.test(part))
  return number < 0 ? name : parts.with(number, '*').join('.')
}

/**
 * By how much the block number differs (`h.1.mlp` to `h.3.mlp`: 2) between two names that are otherwise the same:
 * 0 and `any` where they are the same with and without such a number; undefined where they differ more.
 */
export function blockShift(from: string, to: string): number | 'any' | undefined {
  const [ours, theirs] = [from.split('.'), to.split('.')]
  const number = ours.findIndex((part) => /^\d{1,9}$/.test(part))
  if (ours.length !== theirs.length) return undefined
  if (ours.some((part, index) => index !== number && part !== theirs[index])) return undefined
  if (number < 0) return 'any'
  const other = theirs[number]!
  return /^\d{1,9}$/.test(other) ? Number(other) - Number(ours[number]) : undefined
}

/** What a buffer is for. */
export const bufferKinds = [
  'parameters',
  'gatheredParameters',
  'gradients',
  'optimizerState',
  'residuals',
  'activations',
  'cotangents',
  'other',
] as const
export type BufferKind = (typeof bufferKinds)[number]

export function bufferKind({
  name,
  state,
  pack,
}: {
  readonly name: string
  readonly state?: boolean
  readonly pack?: unknown
}): BufferKind {
  const base = splitPackBuffer(name)?.base
  if (state === true) return base === packBases.parameters ? 'parameters' : 'optimizerState'
  const isPack = pack !== undefined
  if (base === packBases.gathered || (base === packBases.copyShard && isPack)) return 'gatheredParameters'
  if (
    base === packBases.gradients ||
    base === packBases.windowGradients ||
    (base === packBases.copyGradients && isPack)
  )
    return 'gradients'
  if (/^[hrk]\d+\.\d+$/.test(name)) return 'residuals'
  if (cotangentOf(name) !== undefined) return 'cotangents'
  return crossingOf(name) === undefined && !/^t\d+\.\d+$/.test(name) ? 'other' : 'activations'
}
