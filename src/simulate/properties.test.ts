import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type TinyPlan, tinyProgram } from '../../test/support/programs.ts'
import { readInstructions, slotBytes, valueAccesses } from '../program/index.ts'
import { memoryPoints, phaseCosts, simulateProgram, transferSlack } from './index.ts'
import { buildNetwork } from './network.ts'
import { playStreams } from './streams.ts'
import type { CostModel, EngineProfile, SimulationResult } from './types.ts'

const shapes: readonly TinyPlan[] = [
  { stages: 1, data: 2, microbatches: 2, bucket: 64 },
  { stages: 2, data: 2, microbatches: 3, bucket: 256 },
  { stages: 3, data: 1, microbatches: 5, schedule: '1f1b b' },
  { stages: 3, data: 1, microbatches: 4, schedule: 'gpipe', clip: null },
  { stages: 2, data: [3, 2], microbatches: 3 },
  { stages: 2, data: [4, 2], microbatches: 4, schedule: 'gpipe' },
]
const programs = shapes.map((shape) => tinyProgram(shape))

const time = fc.integer({ min: 0, max: 7 })
/** Whole numbers, so that sums are exact. */
const costModels: fc.Arbitrary<CostModel> = fc
  .record({
    phases: fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 6, maxLength: 6 }),
    other: time,
    times: fc.array(time, { minLength: 5, maxLength: 5 }),
  })
  .map(({ phases, other, times: [busy, latency, receive, collective, wake] }) => ({
    name: 'random',
    run: ({ action }) =>
      action === undefined
        ? other
        : [...action.phase].reduce((sum, letter) => sum + phases['FBIWU'.indexOf(letter)]! + action.stage, 0),
    transfer: (bytes) => ({ busy: busy! * (bytes % 3), latency: 1 + latency!, receive: receive! }),
    collective: (_, bytes, members) => collective! * members + (bytes % 2),
    move: () => 0,
    wake: wake!,
  }))
/** By number, as programs are long to print. */
const anyProgram = fc.nat({ max: programs.length - 1 })
const simulations = fc.record({
  program: anyProgram,
  costs: costModels,
  engine: fc.constantFrom<EngineProfile>('independent', 'turns', 'local'),
})

const forEach = (check: (result: SimulationResult) => void): void =>
  fc.assert(
    fc.property(simulations, ({ program, costs, engine }) => {
      check(simulateProgram(programs[program]!, costs, { engine }))
    }),
    { numRuns: 40 },
  )

describe('any simulation', () => {
  it('has a critical path without gaps, as long as the step', () => {
    forEach(({ criticalPath, stepSeconds }) => {
      let reached = 0
      for (const step of criticalPath) {
        expect(step.start).toBe(reached)
        reached += step.seconds
      }
      expect(reached).toBe(stepSeconds)
    })
  })

  it('splits each rank into busy and idle time', () => {
    forEach(({ ranks, stepSeconds }) => {
      for (const { busySeconds, idle } of ranks) {
        const { total, ...parts } = idle
        expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBe(total)
        expect(busySeconds + total).toBe(stepSeconds)
      }
    })
  })

  it('leaves the transfers of its critical path no slack, and none less than nothing', () => {
    forEach((result) => {
      const { network, sendStart, sendEnd, received } = result.times
      const slack = transferSlack(result)
      for (const { local, total } of slack) {
        expect(local).toBeGreaterThanOrEqual(0)
        expect(total).toBeGreaterThanOrEqual(0)
      }
      for (const { message, rank, start, seconds } of result.criticalPath) {
        if (message === undefined) continue
        const sender = network.ranks[network.channels[network.channelOf[message]!]!.from]!.rank
        // What only the sender, or only the receiver, waits for may leave the message some.
        const isMessage =
          result.engine === 'local'
            ? rank === sender && start + seconds === sendEnd[message]
            : start === sendStart[message] && start + seconds === received[message]
        if (isMessage) expect(slack[message]!.total).toBe(0)
      }
    })
  })

  it('holds at its peak what a walk over all moments finds', () => {
    forEach((result) => {
      for (const [index, { peakBytes, peakByKind }] of result.ranks.entries()) {
        expect(peakBytes).toBe(peakByBruteForce(result, index))
        expect(Object.values(peakByKind).reduce((sum, bytes) => sum + bytes, 0)).toBe(peakBytes)
        const points = memoryPoints(result.times, result.times.network.ranks[index]!)
        expect(Math.max(...points.map(({ value }) => value))).toBe(peakBytes)
      }
    })
  })
})

/** At every start of an instruction, the sum over all values that were touched before and will still be. */
function peakByBruteForce({ program, times }: SimulationResult, index: number): number {
  const { base, plan } = times.network.ranks[index]!
  const role = program.roles[plan.index]!
  const lives = new Map<number, { from: number; to: number }>()
  const freed = new Set<number>()
  readInstructions(role.code).forEach((instruction, at) => {
    if (instruction.kind === 'free') for (const value of instruction.values) freed.add(value)
    for (const { value } of valueAccesses(instruction)) {
      const life = lives.get(value) ?? { from: times.start[base + at]!, to: 0 }
      lives.set(value, { ...life, to: Math.max(life.to, times.end[base + at]!) })
    }
  })
  const kept = role.buffers.filter(({ state, constant }) => state === true || constant !== undefined)
  const always = kept.reduce((sum, buffer) => sum + slotBytes(buffer), 0)
  let peak = always
  for (const now of times.start.subarray(base, base + plan.length)) {
    let held = always
    for (const [value, { from, to }] of lives) {
      const buffer = role.buffers[role.values[value]!.buffer]!
      if (kept.includes(buffer)) continue
      const until = freed.has(value) ? to : times.stepSeconds
      if (from <= now && now < until) held += slotBytes(buffer)
    }
    peak = Math.max(peak, held)
  }
  return peak
}

describe('total slack', () => {
  it('is how much later a message can come, and no more', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: programs.length - 1 }),
        costModels,
        fc.nat(),
        (index, costs, pick) => {
          const program = programs[index]!
          const before = playStreams(buildNetwork(program, costs), false)
          const messages = before.network.sender.length
          const message = pick % messages
          const slack = before.totalSlack()[message]!
          const later = (by: number): number => {
            const network = buildNetwork(program, costs)
            network.latency[message]! += by
            return playStreams(network, false).stepSeconds
          }
          expect(later(slack)).toBe(before.stepSeconds)
          expect(later(slack + 1)).toBeGreaterThan(before.stepSeconds)
        },
      ),
      { numRuns: 40 },
    )
  })
})

describe('ranks that stand for their copies', () => {
  it('give what all ranks give', () => {
    const link = {
      transfer: { latency: 1, bytesPerSecond: 64 },
      collective: { latency: 2, bytesPerSecond: 32 },
    }
    const between = {
      transfer: { latency: 3, bytesPerSecond: 8 },
      collective: { latency: 5, bytesPerSecond: 4 },
    }
    const some = [
      { stages: 2, data: 4, microbatches: 3 },
      { stages: 3, data: 2, microbatches: 2 },
      { stages: 2, data: [4, 2], microbatches: 2 },
      { stages: 2, data: [6, 4], microbatches: 2 },
    ].map((shape) => tinyProgram(shape))
    let folded = 0
    fc.assert(
      fc.property(
        fc.nat({ max: some.length - 1 }),
        fc.constantFrom(undefined, 1, 2, 3, 4, 8),
        fc.constantFrom<EngineProfile>('independent', 'turns', 'local'),
        (index, domain, engine) => {
          const program = some[index]!
          const costs = phaseCosts(
            { F: 1, I: 2, W: 1, U: 1, link: domain === undefined ? link : { ...link, domain, between } },
            program.work.stages,
          )
          const [all, few] = [Number.POSITIVE_INFINITY, 0].map((ranksInFull) =>
            simulateProgram(program, costs, { engine, ranksInFull }),
          ) as [SimulationResult, SimulationResult]
          if (few.ranks.length < all.ranks.length) folded++
          expect(few.stepSeconds).toBe(all.stepSeconds)
          expect(few.idleFraction).toBeCloseTo(all.idleFraction, 12)
          expect(few.bytes).toEqual(all.bytes)
          expect(few.calls).toEqual(all.calls)
          expect(few.ranks.reduce((sum, { copies }) => sum + copies, 0)).toBe(all.ranks.length)
          for (const { copies: _, ...rank } of few.ranks)
            expect(all.ranks.find((other) => other.rank === rank.rank)).toMatchObject({ ...rank })
        },
      ),
      { numRuns: 40, seed: 7 },
    )
    expect(folded).toBeGreaterThan(10)
  })
})
