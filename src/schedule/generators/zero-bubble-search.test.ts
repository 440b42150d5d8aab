import { describe, expect, it } from 'vitest'
import { costsOfSetting, publishedSettings } from '../../../test/support/publishedBubbleRates.ts'
import type { StageCosts } from '../generator.ts'
import {
  chainStages,
  entryActions,
  generateSchedule,
  readCosts,
  type Schedule,
  scheduleMetrics,
  validateSchedule,
} from '../index.ts'

/** Most that an actor holds when F takes one activation, I leaves `kept` of it and W the rest: counted here anew. */
function mostHeld(schedule: Schedule, kept: number): number {
  return Math.max(
    ...schedule.actors.map((entries) => {
      const actions = entries.flatMap(entryActions)
      let held = 0
      return Math.max(
        ...actions.map(({ phase }) => {
          held += phase === 'F' ? 1 : phase === 'I' ? kept - 1 : -kept
          return held
        }),
      )
    }),
  )
}

const span = (schedule: Schedule, costs: StageCosts): number => {
  const { bubbleFraction, timing } = scheduleMetrics(schedule, costs)
  return Math.max(...timing.busy) / (1 - bubbleFraction)
}

describe.each([
  ['zb-1p', 1],
  ['zb-2p', 2],
] as const)('%s', (name, factor) => {
  it('reaches or beats the printed rates of Qi et al. 2023, tables 4 to 6, in the memory given there', () => {
    for (const setting of publishedSettings) {
      const { stages, microbatches, rates } = setting
      const costs = costsOfSetting(setting)
      const schedule = generateSchedule(name, chainStages(stages, microbatches), {}, costs)
      const { bubbleFraction } = scheduleMetrics(schedule, costs)
      expect(bubbleFraction).toBeLessThan(rates[name] + 0.000_05)
      expect(mostHeld(schedule, 0.5)).toBeLessThanOrEqual(factor * stages)
    }
  })

  it('is never longer than what is known to fit the same memory', () => {
    for (const [p, m] of [
      [2, 5],
      [5, 3],
      [6, 14],
    ] as const)
      for (const [F, I, W, hop] of [
        [1, 1, 1, 0],
        [4, 5, 8, 1],
        [4, 5, 0.5, 0.2],
        [1, 1, 1, 3],
        [0, 2, 2, 0.1],
      ] as const) {
        const uneven = (time: number): number[] =>
          Array.from({ length: p }, (_, s) => time * (1 + ((s * 7) % 5) / 10))
        for (const costs of [
          readCosts({ F, I, W, hop }, p),
          readCosts({ F: uneven(F), I: uneven(I), W: uneven(W), hop }, p),
        ])
          for (const kept of ['half', 'whole'] as const) {
            const schedule = generateSchedule(name, chainStages(p, m), { kept }, costs)
            expect(validateSchedule(schedule)).toEqual([])
            expect(mostHeld(schedule, kept === 'half' ? 0.5 : 1)).toBeLessThanOrEqual(factor * p)
            for (const other of factor === 1 ? ['1f1b', 'zb-h1'] : ['1f1b', 'zb-h1', 'zb-h2'])
              expect(span(schedule, costs)).toBeLessThanOrEqual(
                span(generateSchedule(other, chainStages(p, m)), costs) * (1 + 1e-9),
              )
          }
      }
  })

  it('makes the same schedule every time', () => {
    const costs = readCosts({ F: 3, I: 4, W: 2, hop: 0.5 }, 5)
    expect(generateSchedule(name, chainStages(5, 9), {}, costs)).toEqual(
      generateSchedule(name, chainStages(5, 9), {}, costs),
    )
  })

  it('takes graphs of stages and refuses several stages on one actor', () => {
    const edges = [
      [0, 1],
      [1, 3],
      [0, 2],
      [2, 3],
    ] as const
    const graph = { stages: 4, edges, placement: [0, 1, 2, 3], microbatches: 5 }
    expect(validateSchedule(generateSchedule(name, graph), { edges })).toEqual([])
    expect(() => generateSchedule(name, chainStages(4, 4, [0, 1, 0, 1]))).toThrow(/actor 0 has several/)
  })
})

/**
 * An activation held whole from F to W, the last of p stages puts off at most A W in A activations. The first stage does
 * its last I no later than a W before its end, the last stage its own (p - 1)(I + hop) earlier, and has begun
 * (p - 1)(F + hop) after the first: so every span is at least m (F + I + W) + (p - 1)(F + I + 2 hop) - (A - 1) W.
 * With A = 2p that is far above the rates printed for ZB-2p: they need what I frees.
 */
it('reaches the bound of twice the memory when an activation is held whole until W', () => {
  for (const setting of publishedSettings.slice(0, 4)) {
    const { stages: p, microbatches: m, times, rates } = setting
    const { F, I, W, hop } = times
    const costs = costsOfSetting(setting)
    const schedule = generateSchedule('zb-2p', chainStages(p, m), { kept: 'whole' }, costs)
    const work = m * (F + I + W)
    const bound = work + (p - 1) * (F + I + 2 * hop) - (2 * p - 1) * W
    expect(Math.max(...scheduleMetrics(schedule, costs).peakActivations)).toBeLessThanOrEqual(2 * p)
    expect(span(schedule, costs)).toBeGreaterThan(bound * (1 - 1e-9))
    expect(span(schedule, costs)).toBeLessThan(bound * 1.0005)
    expect(1 - work / bound).toBeGreaterThan(rates['zb-2p'] + 0.01)
  }
})

describe('against every order there is', () => {
  /** All orders of one stage's F, I and W, micro-batches in order, within `limit`. */
  function orders(microbatches: number, kept: number, limit: number): string[] {
    const found: string[] = []
    const grow = (text: string, f: number, i: number, w: number): void => {
      if (w === microbatches) found.push(text)
      if (f < microbatches && f - i + 1 + kept * (i - w) <= limit + 1e-9) grow(`${text}F`, f + 1, i, w)
      if (i < f) grow(`${text}I`, f, i + 1, w)
      if (w < i) grow(`${text}W`, f, i, w + 1)
    }
    grow('', 0, 0, 0)
    return found
  }

  /** Longest time from a stage's first to its last action; infinite when the orders wait for each other. */
  function longest(lists: readonly string[], { F, I, W, hop }: StageCosts): number {
    const ends = lists.map(() => ({ F: [] as number[], I: [] as number[], W: [] as number[] }))
    const place = lists.map(() => 0)
    const clock = lists.map(() => 0)
    const begun = lists.map(() => Number.POSITIVE_INFINITY)
    for (let moved = true; moved; ) {
      moved = false
      for (const [stage, list] of lists.entries())
        for (; place[stage]! < list.length; place[stage]!++) {
          const phase = list[place[stage]!] as 'F' | 'I' | 'W'
          const microbatch = ends[stage]![phase].length
          const near = phase === 'F' ? stage - 1 : phase === 'I' ? stage + 1 : -1
          const needed =
            near < 0 || near === lists.length ? 0 : (ends[near]![phase][microbatch] ?? Number.NaN) + hop
          if (Number.isNaN(needed)) break
          const start = Math.max(clock[stage]!, needed)
          begun[stage] = Math.min(begun[stage]!, start)
          clock[stage] = start + { F, I, W }[phase][stage]!
          ends[stage]![phase].push(clock[stage]!)
          moved = true
        }
    }
    if (place.some((at, stage) => at < lists[stage]!.length)) return Number.POSITIVE_INFINITY
    return Math.max(...clock.map((end, stage) => end - begun[stage]!))
  }

  it.each([
    [2, 2],
    [2, 3],
    [3, 2],
  ] as const)('%i actors, %i micro-batches: the search is optimal', (p, m) => {
    for (const memory of [1, 2, 3])
      for (const [kept, share] of [
        ['half', 0.5],
        ['whole', 1],
      ] as const)
        for (const [F, I, W, hop] of [
          [1, 1, 1, 0],
          [2, 3, 1, 0.5],
          [3, 2, 4, 1],
          [1, 2, 3, 0],
        ] as const) {
          const costs = readCosts({ F, I, W, hop }, p)
          const each = orders(m, share, memory)
          let best = Number.POSITIVE_INFINITY
          const choose = (lists: readonly string[]): void => {
            if (lists.length === p) best = Math.min(best, longest(lists, costs))
            else for (const list of each) choose([...lists, list])
          }
          choose([])
          const schedule = generateSchedule('zb-1p', chainStages(p, m), { memory, kept }, costs)
          expect(span(schedule, costs)).toBeCloseTo(best, 9)
        }
  })
})
