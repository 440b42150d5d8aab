import * as z from 'zod'
import { entryActions, type Schedule, type WindowMode } from '../schedule/index.ts'
import type { ResolvedLayout } from './layout.ts'
import type { Report } from './resolve.ts'
import type { PlanDocument } from './types.ts'

/** What ZeRO deals out to the replicas, and for how long it is whole. `null` stands for "as the stage has it". */
export interface PlanZero {
  /** 0: nothing; 1: optimizer state; 2: gradients too; 3: parameters too. */
  readonly stage: 0 | 1 | 2 | 3
  /** Ranks that share one copy; null: all replicas of an actor. */
  readonly shards: number | null
  /** Whether each group of shards updates all it has, or shares that with its replicas (ZeRO-1 over them). */
  readonly replicas: 'plain' | 'sharded'
  readonly gather: WindowMode | null
  readonly reduce: WindowMode | null
  readonly prefetch: boolean
  readonly keepLast: boolean
}

const windowMode = z.enum(['action', 'unit', 'step']).nullable().default(null)

const mapping = z.strictObject({
  stage: z.union([z.literal(0), z.literal(1), z.literal(2), z.literal(3)]).meta({
    description:
      'what the replicas share out: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too',
  }),
  shards: z.int().min(2).nullable().default(null).meta({
    description: 'ranks that share one copy; left out: all replicas. The copies are replicas of each other',
  }),
  replicas: z.enum(['plain', 'sharded']).default('plain').meta({
    description: 'whether copies update all they have, or share the optimizer state too (ZeRO-1 over them)',
  }),
  gather: windowMode.meta({
    description:
      'how long parameters stay whole: for an action, a unit (ZeroPP) or the step; left out: the step, in stage 3 the unit where the schedule has some, else the action',
  }),
  reduce: windowMode.meta({
    description:
      'how long gradients add up before they are shared out; left out: in stage 1 the step, else the unit where the schedule has some, else the action',
  }),
  prefetch: z.boolean().default(true).meta({ description: 'gather for the next window during this one' }),
  keepLast: z
    .boolean()
    .default(false)
    .meta({ description: 'keep what a forward gathered where its backward comes next' }),
})

export const zeroSchema: z.ZodType = z
  .union([z.literal(0), z.literal(1), z.literal(2), z.literal(3), mapping])
  .default(0)
  .meta({
    description: 'ZeRO: share out over the replicas what each of them would hold; a stage or a mapping',
  })

/** Writes out the short form. */
export function fillZero(zero: number | PlanZero): PlanZero {
  return typeof zero === 'number' ? (mapping.parse({ stage: zero }) as PlanZero) : zero
}

/** The form in which people write it. */
export function writeZero(zero: PlanZero): number | Record<string, unknown> {
  const plain = fillZero(zero.stage)
  const changed = Object.entries(zero).filter(([key, value]) => value !== plain[key as keyof PlanZero])
  return changed.length === 0 ? zero.stage : { stage: zero.stage, ...Object.fromEntries(changed) }
}

export interface ResolvedZero {
  readonly stage: 1 | 2 | 3
  /** Ranks that share one copy, and copies. */
  readonly shards: number
  readonly copies: number
  /** Copies share the optimizer state too. */
  readonly shardsCopies: boolean
  readonly gather: WindowMode
  readonly reduce: WindowMode
  readonly prefetch: boolean
  readonly keepLast: boolean
}

/**
 * Windows and groups of a plan's ZeRO; null where there is none, undefined, and reported, where it cannot be. A schedule
 * that could not be made is left undefined: the rest is looked at all the same.
 */
export function resolveZero(
  { zero }: PlanDocument,
  {
    replicas,
    schedule,
    layout,
  }: {
    readonly replicas: readonly number[]
    readonly schedule: Schedule | undefined
    readonly layout: ResolvedLayout | null | undefined
  },
  report: Report,
): ResolvedZero | null | undefined {
  const { stage } = zero
  const bad = (key: keyof PlanZero | undefined, message: string, hint: string): undefined =>
    report('PLAN_ZERO', key === undefined ? ['zero'] : ['zero', key], message, hint)
  if (stage === 0) {
    const key = (['shards', 'gather', 'reduce'] as const).find((name) => zero[name] !== null)
    if (key !== undefined)
      return bad(key, `zero.${key} is given, but stage 0 shares out nothing`, 'set zero.stage to 1, 2 or 3')
    return null
  }
  const count = replicas[0]!
  if (replicas.some((other) => other !== count))
    return bad(
      undefined,
      `actors have ${replicas.join(', ')} replicas`,
      'ZeRO needs as many replicas of every actor',
    )
  if (count === 1)
    return bad(
      undefined,
      'there is one replica, so nothing can be shared out',
      'set mesh.data to 2 or more, or zero to 0',
    )
  const shards = zero.shards ?? count
  if (count % shards !== 0)
    return bad(
      'shards',
      `${count} replicas do not divide into copies of ${shards} ranks`,
      `zero.shards is one of ${divisorsOf(count).join(', ')}`,
    )
  const copies = count / shards
  const cutData = layout?.actors[0]?.mesh.axes.find(({ name }) =>
    layout.actors[0]!.parts['data']!.includes(name),
  )
  if (copies > 1 && cutData !== undefined)
    return bad(
      'shards',
      `experts are cut over ${cutData.size} of the ${count} replicas, and copies of ${shards} shards cut them another way`,
      'leave zero.shards out, or give experts no more ranks than context and tensor have',
    )
  if (copies === 1 && zero.replicas === 'sharded')
    return bad(
      'replicas',
      'there is one copy, so copies have nothing to share',
      `set zero.shards below ${count}`,
    )
  if (stage < 3 && zero.gather !== null && zero.gather !== 'step')
    return bad(
      'gather',
      `zero.gather is ${zero.gather}, but stage ${stage} keeps parameters whole for the step`,
      'set zero.stage to 3',
    )
  if (stage === 1 && zero.reduce !== null && zero.reduce !== 'step')
    return bad(
      'reduce',
      `zero.reduce is ${zero.reduce}, but stage 1 keeps gradients whole for the step`,
      'set zero.stage to 2 or 3',
    )
  const finest = schedule !== undefined && hasUnits(schedule) ? 'unit' : 'action'
  return {
    stage,
    shards,
    copies,
    shardsCopies: zero.replicas === 'sharded',
    gather: zero.gather ?? (stage === 3 ? finest : 'step'),
    reduce: zero.reduce ?? (stage === 1 ? 'step' : finest),
    prefetch: zero.prefetch,
    keepLast: zero.keepLast,
  }
}

function hasUnits({ actors }: Schedule): boolean {
  return actors.some((entries) =>
    entries.some((entry) => entryActions(entry).some(({ unit }) => unit !== undefined)),
  )
}

function divisorsOf(count: number): number[] {
  return Array.from({ length: count - 1 }, (_, index) => index + 2).filter((size) => count % size === 0)
}
