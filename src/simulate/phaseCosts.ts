import { collectiveWireBytes } from '../program/index.ts'
import { costError, join, readCount, readFields, readRate, readStageTimes, readTime } from './costDocument.ts'
import { sumOfLetters } from './costs.ts'
import type { CostModel } from './types.ts'

/** What bytes take on the way: `latency` once for a message or a collective, then the wire's share. */
interface Wire {
  readonly latency: number
  readonly bytesPerSecond: number
}

interface Link {
  readonly transfer: Wire
  readonly collective: Wire
}

interface Links {
  readonly inside: Link
  /** Ranks n d to n d + d - 1 are a domain of d ranks; what is not inside of one goes between. */
  readonly domain?: number
  readonly between?: Link
}

/**
 * Costs by phase, from a JSON document:
 *
 * - `F`, `I`, `W` seconds of one micro-batch through a stage, in one run or shared by several; a number or a list by
 *   stage; a whole backward takes I + W
 * - `hop` seconds from one rank to another, in which nothing is occupied; default 0
 * - `R` recomputation, default as F; `U` update, default 0; `FB` forward and backward in one, default F + I + W
 * - `link` `{transfer, collective, domain, between: {transfer, collective}}`, each wire `{latency, bytesPerSecond}`:
 *   communication by size. Collectives run around a ring. Without it they take no time.
 *
 * @throws MeshwrightError `SIMULATE_COSTS` with the path in the document
 */
export function phaseCosts(document: unknown, stages: number): CostModel {
  const given = readFields('', document, ['F', 'I', 'W', 'hop', 'R', 'U', 'FB', 'link'])
  const times = (key: string): readonly number[] => readStageTimes(key, given[key], stages)
  const optional = (key: string): readonly number[] | undefined =>
    given[key] === undefined ? undefined : times(key)
  const [F, I, W] = [times('F'), times('I'), times('W')]
  if ([...F, ...I, ...W].every((one) => one === 0))
    throw costError('', 'F, I and W all take no time', 'give the time of at least one')
  const whole = new Map<string, readonly number[]>([
    ['F', F],
    ['I', I],
    ['W', W],
    ['B', I.map((inputs, stage) => inputs + W[stage]!)],
    ['R', optional('R') ?? F],
    ['U', optional('U') ?? Array<number>(stages).fill(0)],
  ])
  const fused = optional('FB')
  if (fused !== undefined) whole.set('FB', fused)
  const hop = given['hop'] === undefined ? 0 : readTime('hop', given['hop'])
  const links = given['link'] === undefined ? undefined : readLinks('link', given['link'])
  const wire = (link: number, kind: keyof Link): Wire | undefined =>
    (link === 0 ? links?.inside : links?.between)?.[kind]
  const domain = links?.domain
  return {
    name: 'phases',
    run: (context) => {
      const { action, share } = context
      if (action === undefined) return 0
      const { phase, stage } = action
      const time =
        whole.get(phase)?.[stage] ?? sumOfLetters(context, (letter) => whole.get(letter)?.[stage] ?? 0)
      return time * share
    },
    transfer: (bytes, link) => {
      const used = wire(link, 'transfer')
      return {
        busy: used === undefined ? 0 : bytes / used.bytesPerSecond,
        latency: hop + (used?.latency ?? 0),
        receive: 0,
      }
    },
    collective: (operation, payloadBytes, members, link) => {
      const used = wire(link, 'collective')
      if (used === undefined || members === 1) return 0
      return used.latency + collectiveWireBytes(operation, payloadBytes, members) / used.bytesPerSecond
    },
    move: () => 0,
    ...(domain === undefined
      ? {}
      : { link: (ranks: readonly number[]) => (isInside(ranks, domain) ? 0 : 1) }),
  }
}

function isInside(ranks: readonly number[], domain: number): boolean {
  const first = Math.floor((ranks[0] ?? 0) / domain)
  return ranks.every((rank) => Math.floor(rank / domain) === first)
}

function readLinks(path: string, value: unknown): Links {
  const given = readFields(path, value, ['transfer', 'collective', 'domain', 'between'])
  const inside = readLink(path, given)
  if (given['domain'] === undefined && given['between'] === undefined) return { inside }
  return {
    inside,
    domain: readCount(join(path, 'domain'), given['domain']),
    between: readLink(
      join(path, 'between'),
      readFields(join(path, 'between'), given['between'], ['transfer', 'collective']),
    ),
  }
}

function readLink(path: string, given: Readonly<Record<string, unknown>>): Link {
  return {
    transfer: readWire(join(path, 'transfer'), given['transfer']),
    collective: readWire(join(path, 'collective'), given['collective']),
  }
}

function readWire(path: string, value: unknown): Wire {
  const given = readFields(path, value, ['latency', 'bytesPerSecond'])
  return {
    latency: readTime(join(path, 'latency'), given['latency']),
    bytesPerSecond: readRate(join(path, 'bytesPerSecond'), given['bytesPerSecond']),
  }
}
