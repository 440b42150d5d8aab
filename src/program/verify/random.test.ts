import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { drop, duplicate, swap, tinyProgram, withInstructions } from '../../../test/support/programs.ts'
import { communicationProgram } from '../../../test/support/programText.ts'
import { runsToTheEnd } from '../../../test/support/rendezvous.ts'
import { memoryProblem } from '../../../test/support/rowOwners.ts'
import type { Instruction, Program } from '../types.ts'
import { verifyProgram } from './index.ts'

const programs: readonly Program[] = [
  tinyProgram({ stages: 2, data: 2, microbatches: 2 }),
  tinyProgram({ stages: 3, microbatches: 2, schedule: 'gpipe' }),
  tinyProgram({ stages: 2, data: [2, 1], microbatches: 2, tied: false }),
]

type Change = (list: Instruction[], a: number, b: number) => readonly Instruction[]

const changes: Readonly<Record<string, Change>> = {
  drop: (list, a) => drop(list, a),
  duplicate: (list, a) => duplicate(list, a),
  swapNeighbours: (list, a) => (a === 0 ? list : swap(list, a - 1, a)),
  swapAny: (list, a, b) => swap(list, a, b),
}

interface Mutation {
  readonly program: number
  readonly role: number
  readonly change: string
  readonly a: number
  readonly b: number
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  program: fc.nat(),
  role: fc.nat(),
  change: fc.constantFrom(...Object.keys(changes)),
  a: fc.nat(),
  b: fc.nat(),
})

function mutate({ program, role, change, a, b }: Mutation): Program {
  const base = programs[program % programs.length]!
  const at = role % base.roles.length
  const { length } = base.roles[at]!.code
  return withInstructions(base, at, (list) => changes[change]!(list, a % length, b % length))
}

interface Communication {
  readonly roles: readonly (readonly string[])[]
  readonly channelSlots: number
  readonly exchanges: boolean
}

/** Transfers between two or three ranks and collectives of all, each rank's in an order of its own. */
const communication: fc.Arbitrary<Communication> = fc
  .record({
    ranks: fc.integer({ min: 2, max: 3 }),
    items: fc.array(
      fc.record({
        kind: fc.constantFrom('transfer', 'transfer', 'transfer', 'collective'),
        from: fc.nat(),
        distance: fc.nat(),
        stream: fc.constantFrom('one', 'two'),
        /** Sends on what this earlier transfer brought, if it came here. */
        source: fc.nat({ max: 9 }),
        keys: fc.array(fc.nat({ max: 30 }), { minLength: 3, maxLength: 3 }),
      }),
      { minLength: 1, maxLength: 7 },
    ),
    joins: fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }),
    exchanges: fc.boolean(),
    channelSlots: fc.integer({ min: 1, max: 2 }),
  })
  .map(({ ranks, items, joins, exchanges, channelSlots }) => {
    const lists: { key: number; stream: string; text: string }[][] = Array.from({ length: ranks }, () => [])
    const homes = items.map(({ kind, from, distance }) => {
      const sender = from % ranks
      return kind === 'transfer' ? [sender, (sender + 1 + (distance % (ranks - 1))) % ranks] : undefined
    })
    items.forEach(({ stream, source, keys }, id) => {
      const ends = homes[id]
      if (ends === undefined) {
        lists.forEach((list, rank) => {
          list.push({ key: keys[rank]!, stream, text: `all-reduce #${id} sum c over both` })
        })
        return
      }
      const [from, to] = ends as [number, number]
      const what = homes[source]?.[1] === from ? `r${source}` : 'a'
      const step = to - from
      const [there, back] = [step, -step].map((d) => `pipeline${d < 0 ? d : `+${d}`}`)
      lists[from]!.push({ key: keys[0]! + id, stream, text: `send #${id} ${what} to ${there}` })
      lists[to]!.push({ key: keys[1]! + id, stream, text: `recv #${id} r${id} from ${back}` })
    })
    const roles = lists.map((list) => {
      const lines: string[] = []
      list
        .sort((x, y) => x.key - y.key)
        .forEach(({ stream, text }, index) => {
          const before = lines.at(-1)
          const joined = exchanges && joins[index] === true && !text.startsWith('all')
          if (joined && before?.startsWith(stream) && !before.includes('all-reduce'))
            lines[lines.length - 1] = `${before.replace(/^(\w+) (?!exchange)/, '$1 exchange ')} | ${text}`
          else lines.push(`${stream} ${text}`)
        })
      return lines
    })
    return { roles, channelSlots, exchanges }
  })

describe('the verifier against a simulator of order', () => {
  it('lets the unchanged programs run', () => {
    for (const program of programs) {
      expect(runsToTheEnd(program)).toBe(true)
      expect(runsToTheEnd(program, program.channelSlots)).toBe(true)
    }
  })

  it('accepts only what runs to the end, and says DEADLOCK of what does not', () => {
    let [refused, hung] = [0, 0]
    fc.assert(
      fc.property(mutation, (described) => {
        const program = mutate(described)
        const { findings, proven, skipped } = verifyProgram(program)
        if (findings.length > 0) refused++
        if (proven.includes('deadlock')) expect(runsToTheEnd(program)).toBe(true)
        if (proven.includes('bufferedDeadlock'))
          expect(runsToTheEnd(program, program.channelSlots)).toBe(true)
        if (skipped.includes('deadlock')) return
        if (runsToTheEnd(program)) return
        hung++
        expect(findings.map(({ code }) => code)).toContain('DEADLOCK')
      }),
      { numRuns: 150, seed: 1 },
    )
    // Otherwise the property would say little.
    expect(refused).toBeGreaterThan(50)
    expect(hung).toBeGreaterThan(5)
  })

  it('agrees with a walk row by row about memory', () => {
    // What the verifier asks beyond it: that writes are read, and do not meet.
    const beyond = ['WRITE_UNREAD', 'WRITE_OVERLAP']
    const seen = { sound: 0, unsound: 0 }
    fc.assert(
      fc.property(mutation, (described) => {
        const program = mutate(described)
        const { findings, proven } = verifyProgram(program)
        const unsound = program.roles.some((role) => memoryProblem(role) !== undefined)
        if (proven.includes('lifetimes')) expect(unsound).toBe(false)
        const more = findings.some(({ code }) => beyond.includes(code))
        if (!unsound && !more) expect(proven).toContain('lifetimes')
        seen[unsound ? 'unsound' : 'sound']++
      }),
      { numRuns: 300, seed: 3 },
    )
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(30)
  })

  it('agrees exactly on random communication', () => {
    const seen = { rendezvous: 0, buffered: 0, hung: 0, fifo: 0 }
    fc.assert(
      fc.property(communication, (described) => {
        const program = communicationProgram(described.roles, described.channelSlots)
        const { proven, skipped } = verifyProgram(program)
        expect(proven).toContain('matching')
        const runs = runsToTheEnd(program)
        // An exchange counts as one node, which asks a little more than that its parts meet.
        if (proven.includes('deadlock')) expect(runs).toBe(true)
        else if (!described.exchanges) expect(runs).toBe(false)
        seen[runs ? 'rendezvous' : 'hung']++
        if (skipped.includes('bufferedDeadlock')) return
        seen.fifo++
        const buffered = runsToTheEnd(program, described.channelSlots)
        expect(proven.includes('bufferedDeadlock')).toBe(buffered)
        if (buffered && !runs) seen.buffered++
      }),
      { numRuns: 300, seed: 2 },
    )
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(15)
  })
})
