import { describe, expect, it } from 'vitest'
import {
  drop,
  duplicate,
  isRecv,
  isRun,
  isSend,
  move,
  placesOf,
  replace,
  swap,
  type TinyPlan,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import { communicationProgram } from '../../../test/support/programText.ts'
import { readInstruction } from '../columns.ts'
import type { Instruction, Program } from '../types.ts'
import { invariants, verifyProgram } from './index.ts'

type Change = (instructions: Instruction[]) => readonly Instruction[]

const base = tinyProgram({ stages: 2, data: 2, microbatches: 3 })
const gpipe = tinyProgram({ stages: 2, data: 2, microbatches: 2, schedule: 'gpipe' })
const unequal = tinyProgram({ stages: 2, data: [2, 1], microbatches: 2 })

/** Codes of what is found, each once, sorted. */
function codes(program: Program, options: Parameters<typeof verifyProgram>[1] = {}): string[] {
  return [...new Set(verifyProgram(program, options).findings.map(({ code }) => code))].sort()
}

function changed(program: Program, role: number, change: Change): string[] {
  return codes(withInstructions(program, role, change))
}

/** Place of the `nth` instruction that `test` picks. */
function place(program: Program, role: number, test: (instruction: Instruction) => boolean, nth = 0): number {
  const found = placesOf(program.roles[role]!, test)[nth]
  if (found === undefined) throw new Error(`no instruction ${nth} of that kind`)
  return found
}

const run = (program: Program, role: number, phase: string, nth = 0): number =>
  place(program, role, isRun(phase)(program.roles[role]!), nth)

const ofTask =
  (program: Program, name: string) =>
  (instruction: Instruction): boolean =>
    instruction.kind === 'run' && program.tasks[instruction.task]!.name === name

const isCollective = ({ kind }: Instruction): boolean => kind === 'collective'
const isFree = ({ kind }: Instruction): boolean => kind === 'free'

describe('an unchanged program', () => {
  const plans: TinyPlan[] = [
    { stages: 1 },
    { stages: 2, data: 2, microbatches: 3 },
    { stages: 2, data: [3, 2], microbatches: 2, schedule: 'gpipe' },
    { stages: 3, schedule: '1f1b b', model: 'llama' },
  ]
  it.each(plans)('is accepted, every invariant proven: %o', (plan) => {
    expect(verifyProgram(tinyProgram(plan))).toEqual({
      findings: [],
      proven: invariants.map(({ name }) => name),
      skipped: [],
    })
  })
})

describe('roles', () => {
  it('misses ranks without a role', () => {
    const found = verifyProgram({ ...base, roles: base.roles.slice(0, 1) }).findings[0]!
    expect(found).toMatchObject({ code: 'ROLE_MISSING', ranks: [2, 3] })
  })

  it('refuses two roles for one rank', () => {
    const found = verifyProgram({ ...base, roles: [...base.roles, base.roles[1]!] }).findings[0]!
    expect(found).toMatchObject({ code: 'ROLE_REPEATED', ranks: [2, 3] })
  })
})

describe('types', () => {
  const first = run(base, 0, 'F')
  const withRun = (change: (run: Extract<Instruction, { kind: 'run' }>) => Instruction): string[] =>
    changed(base, 0, (list) =>
      replace(list, first, (item) => {
        if (item.kind !== 'run') throw new Error('no run')
        return change(item)
      }),
    )

  it('refuses operands in the wrong order', () => {
    expect(withRun((item) => ({ ...item, reads: item.reads.toReversed() }))).toContain('OPERAND_TYPE')
  })

  it('refuses operands too few', () => {
    expect(withRun((item) => ({ ...item, reads: item.reads.slice(1) }))).toContain('OPERAND_TYPE')
  })

  it('refuses a task that is not declared', () => {
    expect(withRun((item) => ({ ...item, task: base.tasks.length }))).toContain('OPERAND_TYPE')
  })

  it('refuses a buffer of another dtype or shape', () => {
    for (const change of [{ dtype: 'f32' }, { shape: [2, 2] }] as const) {
      const other = withRole(base, 0, (role) => ({
        ...role,
        buffers: role.buffers.map((buffer) => (buffer.name === 'r0.0' ? { ...buffer, ...change } : buffer)),
      }))
      expect(codes(other)).toEqual(['OPERAND_TYPE'])
    }
  })

  it('refuses a kernel with operands that it cannot take', () => {
    const found = changed(base, 0, (list) =>
      replace(list, place(base, 0, ofTask(base, 'sumSquares')), (item) =>
        item.kind === 'run' ? { ...item, reads: item.reads.toReversed() } : item,
      ),
    )
    expect(found).toContain('OPERAND_TYPE')
  })

  it('refuses ids that are no whole numbers, and rows that are not as many as their ids', () => {
    const at = base.tasks.findIndex(({ name }) => name === 'B0')
    const task = base.tasks[at]!
    if (task.kind !== 'graph') throw new Error('no graph')
    const withRows = (change: object): Program => ({
      ...base,
      tasks: base.tasks.with(at, {
        ...task,
        writes: task.writes.map((port) =>
          port.kind === 'pack' ? { ...port, rows: port.rows.map((rows) => ({ ...rows, ...change })) } : port,
        ),
      }),
    })
    expect(task.writes.some((port) => port.kind === 'pack' && port.rows.length > 0)).toBe(true)
    expect(codes(withRows({}))).toEqual([])
    const cotangent = task.reads.findIndex((port) => port.kind === 'tensor')
    expect(codes(withRows({ ids: { read: cotangent + 1 } }))).toEqual(['OPERAND_TYPE'])
    expect(codes(withRows({ ids: { read: 99 } }))).toEqual(['OPERAND_TYPE'])
    expect(codes(withRows({ rowElements: 1 }))).toEqual(['OPERAND_TYPE'])
  })

  it('refuses a set that leaves part of its operand as it was', () => {
    const at = base.tasks.findIndex(({ name }) => name === 'FB1')
    const task = base.tasks[at]!
    if (task.kind !== 'graph') throw new Error('no graph')
    const writes = task.writes.map((port) =>
      port.kind === 'pack' ? { ...port, entries: port.entries.slice(1) } : port,
    )
    const other = { ...base, tasks: base.tasks.with(at, { ...task, writes }) }
    expect(codes(other)).toEqual(['OPERAND_TYPE'])
    expect(verifyProgram(other).findings[0]!.message).toMatch(/sets only part of g1: element \d+/)
  })
})

describe('actions', () => {
  const backward = run(base, 0, 'B', 2)

  it('misses an action', () => {
    const { findings } = verifyProgram(withInstructions(base, 0, (list) => drop(list, backward)))
    expect(findings[0]).toMatchObject({ code: 'ACTION_MISSING', stage: 0, microbatch: 2, ranks: [0, 1] })
  })

  it('refuses a second one', () => {
    const { findings } = verifyProgram(withInstructions(base, 0, (list) => duplicate(list, backward)))
    expect(findings[0]).toMatchObject({ code: 'ACTION_REPEATED', stage: 0, microbatch: 2 })
  })

  it('refuses an action that no step has', () => {
    for (const change of [{ stage: 2 }, { microbatch: 3 }, { phase: 'U' }, { phase: 'Z' }]) {
      const other = withRole(base, 0, (role) => ({
        ...role,
        actions: role.actions.map((action, index) => (index === 0 ? { ...action, ...change } : action)),
      }))
      expect(codes(other)).toContain(change.phase === 'U' ? 'ACTION_MISSING' : 'ACTION_UNKNOWN')
    }
  })

  it('misses a stage that nobody runs, and one that a replica does not run', () => {
    expect(codes({ ...base, work: { ...base.work, stages: 3 } })).toEqual(['ACTION_MISSING'])
    const split = tinyProgram({ stages: 2, data: [3, 2], microbatches: 1 })
    const isAction = (item: Instruction): boolean => item.kind === 'run' && item.action !== undefined
    expect(changed(split, 1, (list) => list.filter((item) => !isAction(item)))).toContain('ACTION_MISSING')
  })

  it('refuses a stage at two pipeline coordinates', () => {
    const other = withRole(base, 1, (role) => ({
      ...role,
      actions: role.actions.map((action) => ({ ...action, stage: 0 })),
    }))
    const { findings } = verifyProgram(other)
    expect(findings.map(({ code }) => code)).toEqual(
      expect.arrayContaining(['ACTION_REPEATED', 'ACTION_MISSING']),
    )
  })

  it('asks of a validation program that it goes forward only', () => {
    const forward = tinyProgram({ stages: 2, microbatches: 2 }, { method: 'infer' })
    expect(codes(forward)).toEqual([])
    expect(codes({ ...forward, work: { ...forward.work, method: 'gradient' } })).toContain('ACTION_MISSING')
    expect(codes({ ...base, work: { ...base.work, method: 'infer' } })).toContain('ACTION_UNKNOWN')
  })
})

describe('lifetimes', () => {
  it('finds a read before its write', () => {
    const [forward, backward] = [run(base, 0, 'F'), run(base, 0, 'B')]
    expect(changed(base, 0, (list) => move(list, backward, forward))).toContain('READ_BEFORE_WRITE')
    expect(changed(base, 0, (list) => drop(list, forward))).toContain('READ_BEFORE_WRITE')
  })

  it('finds rows that only some of the receives bring', () => {
    const at = place(unequal, 1, isRecv)
    const found = verifyProgram(
      withInstructions(unequal, 1, (list) =>
        replace(list, at, (item) =>
          item.kind === 'exchange' ? { ...item, parts: item.parts.slice(0, 1) } : item,
        ),
      ),
    ).findings
    const missing = found.find(({ code }) => code === 'READ_BEFORE_WRITE')!
    expect(missing.message).toContain('x0[0] (row 1), which nothing before it writes')
    expect(missing).toMatchObject({ stage: 1, microbatch: 0, ranks: [2] })
  })

  it('finds use after free', () => {
    const at = place(base, 0, isFree)
    const user = at - 1
    expect(changed(base, 0, (list) => move(list, at, user))).toEqual(
      expect.arrayContaining(['READ_AFTER_FREE']),
    )
    const early = run(base, 0, 'F')
    const item = readInstruction(base.roles[0]!.code, early)
    const made = item.kind === 'run' ? item.writes.map(({ value }) => value) : []
    expect(changed(base, 0, (list) => list.toSpliced(early, 0, { kind: 'free', values: made }))).toEqual([
      'FREE_UNKNOWN',
      'READ_AFTER_FREE',
      'WRITE_AFTER_FREE',
    ])
  })

  it('finds what is freed twice or lives on', () => {
    const at = place(base, 0, isFree)
    expect(changed(base, 0, (list) => duplicate(list, at))).toEqual(['FREE_UNKNOWN'])
    const state = base.roles[0]!.values.findIndex(({ step }) => step === 1)
    expect(changed(base, 0, (list) => [...list, { kind: 'free', values: [state] }])).toEqual(['FREE_UNKNOWN'])
  })

  it('finds what is never freed', () => {
    for (const at of placesOf(base.roles[0]!, isFree)) {
      const found = changed(base, 0, (list) => drop(list, at))
      expect(found).toContain('VALUE_LEFT')
    }
  })

  it('finds a slot that is used while it holds another value', () => {
    const crowded = withRole(base, 0, (role) => ({
      ...role,
      values: role.values.map((value) =>
        role.buffers[value.buffer]!.name === 'r0.0' ? { ...value, slot: 0 } : value,
      ),
    }))
    expect(codes(crowded)).toEqual(['SLOT_IN_USE'])
  })

  it('finds a slot that the buffer does not have', () => {
    const narrow = withRole(base, 0, (role) => ({
      ...role,
      buffers: role.buffers.map((buffer) => ({
        ...buffer,
        slots: buffer.name === 'r0.0' ? 1 : buffer.slots,
      })),
    }))
    expect(codes(narrow)).toEqual(['SLOT_OUTSIDE'])
  })

  it('finds regions that their buffer does not have, where it is written and where it is read', () => {
    for (const role of [0, 1]) {
      for (const bad of [
        { start: 0, end: 900 },
        { start: 2, end: 2 },
        { start: -1, end: 1 },
      ]) {
        const { regions } = unequal.roles[role]!
        const other = withRole(unequal, role, (old) => ({ ...old, regions: regions.with(0, bad) }))
        expect(codes(other)).toContain('REGION_OUTSIDE')
      }
    }
  })

  it('finds parts of one exchange that receive the same rows', () => {
    const at = place(unequal, 1, isRecv)
    const found = changed(unequal, 1, (list) =>
      replace(list, at, (item) =>
        item.kind === 'exchange'
          ? { ...item, parts: item.parts.map((part) => ({ ...part, region: item.parts[0]!.region! })) }
          : item,
      ),
    )
    expect(found).toEqual(expect.arrayContaining(['WRITE_OVERLAP', 'READ_BEFORE_WRITE']))
  })

  it('finds a write over what nothing has read', () => {
    const load = place(base, 0, ({ kind }) => kind === 'move')
    expect(changed(base, 0, (list) => duplicate(list, load))).toEqual(['WRITE_UNREAD'])
    const clip = place(base, 0, ofTask(base, 'clip'))
    expect(changed(base, 0, (list) => duplicate(list, clip))).toEqual(['WRITE_UNREAD'])
  })

  it('finds state read after it was updated in place, and writes over what the step is given', () => {
    const update = place(base, 0, ofTask(base, 'U0'))
    const backward = run(base, 0, 'B', 2)
    const late = withInstructions(base, 0, (list) => move(list, update, backward))
    expect(codes(late)).toContain('READ_AFTER_UPDATE')
    const { values } = base.roles[0]!
    const given = values.findIndex(({ step }) => step === 0)
    const overwritten = withInstructions(base, 0, (list) =>
      replace(list, update, (item) =>
        item.kind === 'run'
          ? {
              ...item,
              writes: item.writes.map((write, index) => (index === 0 ? { ...write, value: given } : write)),
            }
          : item,
      ),
    )
    expect(codes(overwritten)).toEqual(expect.arrayContaining(['WRITE_GIVEN', 'STATE_PARTIAL']))
  })
})

describe('matching', () => {
  it('misses the other end of a transfer', () => {
    const { findings } = verifyProgram(
      withInstructions(base, 0, (list) => drop(list, place(base, 0, isSend))),
    )
    const found = findings.filter(({ code }) => code === 'TRANSFER_UNMATCHED')
    expect(found).toMatchObject([
      { ranks: [0, 1, 2, 3], message: expect.stringContaining('received but never sent') },
    ])
    const recv = place(base, 1, isRecv)
    const other = verifyProgram(withInstructions(base, 1, (list) => drop(list, recv))).findings
    expect(other[0]).toMatchObject({ message: expect.stringContaining('sent but never received') })
  })

  it('refuses a transfer twice', () => {
    expect(changed(base, 0, (list) => duplicate(list, place(base, 0, isSend)))).toContain('TRANSFER_REPEATED')
  })

  it('refuses a peer that is not there, and one that does not expect it', () => {
    const withPeer = (peer: object): string[] =>
      codes(withRole(base, 0, (role) => ({ ...role, peers: role.peers.map((old) => ({ ...old, ...peer })) })))
    expect(withPeer({ pipeline: -1 })).toEqual(['PEER_MISSING', 'TRANSFER_UNMATCHED'])
    const shift = (offset: number): object => ({ axes: [{ name: 'data', scale: 1, offset, divisor: 1 }] })
    expect(withPeer(shift(2))).toEqual(['PEER_MISSING', 'TRANSFER_UNMATCHED'])
    expect(withPeer({ axes: [{ name: 'data', scale: -1, offset: 1, divisor: 1 }] })).toEqual([
      'TRANSFER_UNMATCHED',
    ])
  })

  it('refuses ends of different size, dtype or stream', () => {
    const withBuffer = (change: object): string[] =>
      codes(
        withRole(base, 1, (role) => ({
          ...role,
          buffers: role.buffers.map((buffer) => (buffer.name === 'd.x0' ? { ...buffer, ...change } : buffer)),
        })),
      )
    expect(withBuffer({ shape: [1, 4, 8] })).toContain('TRANSFER_SIZE')
    expect(withBuffer({ shape: [2, 4, 4], dtype: 'f32' })).toContain('TRANSFER_TYPE')
    const reduce = base.streams.findIndex(({ name }) => name === 'reduce')
    const found = changed(base, 0, (list) =>
      replace(list, place(base, 0, isSend), (item) =>
        item.kind === 'free' ? item : { ...item, stream: reduce },
      ),
    )
    expect(found).toEqual(['TRANSFER_STREAM'])
  })

  it('misses a member of a collective', () => {
    const split = tinyProgram({ stages: 2, data: [3, 2], microbatches: 1 })
    const last = placesOf(split.roles[0]!, isCollective).at(-1)!
    const { findings } = verifyProgram(withInstructions(split, 0, (list) => drop(list, last)))
    const found = findings.filter(({ code }) => code === 'COLLECTIVE_MEMBER')
    expect(found).toMatchObject([
      { message: expect.stringContaining('is not issued by rank 0, for which ranks 1 to 4') },
    ])
  })

  it('refuses a collective twice, or with operations or sizes that differ', () => {
    const at = place(base, 0, isCollective)
    expect(changed(base, 0, (list) => duplicate(list, at))).toEqual(['COLLECTIVE_REPEATED'])
    const tied = placesOf(
      base.roles[0]!,
      (item) => item.kind === 'collective' && base.groups[item.group]!.name !== 'data',
    )
    const found = changed(base, 0, (list) =>
      replace(list, tied[0]!, (item) => (item.kind === 'collective' ? { ...item, reduce: 'max' } : item)),
    )
    expect(found).toEqual(['COLLECTIVE_MISMATCH'])
    const small = withRole(base, 0, (role) => ({ ...role, regions: [...role.regions, { start: 0, end: 1 }] }))
    const region = small.roles[0]!.regions.length - 1
    const sizes = changed(small, 0, (list) =>
      replace(list, tied[0]!, (item) =>
        item.kind === 'collective' ? { ...item, operand: { ...item.operand, region } } : item,
      ),
    )
    expect(sizes).toEqual(['COLLECTIVE_MISMATCH'])
  })

  it('refuses a collective of a rank that is no member', () => {
    const three = tinyProgram({ stages: 3, microbatches: 1 })
    const tied = three.groups.findIndex(({ name }) => name.startsWith('tied'))
    const isTied = (item: Instruction): boolean => item.kind === 'collective' && item.group === tied
    const added = readInstruction(three.roles[0]!.code, place(three, 0, isTied))
    const own = readInstruction(three.roles[1]!.code, place(three, 1, isCollective))
    if (added.kind !== 'collective' || own.kind !== 'collective') throw new Error('no collectives')
    const at = place(three, 1, isCollective)
    const found = verifyProgram(
      withInstructions(three, 1, (list) => list.toSpliced(at, 0, { ...added, operand: own.operand })),
    ).findings
    expect(found.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('no member of its group'),
    )
  })
})

describe('deadlock', () => {
  /** The sends of m0 and m1 in the wrong order; their frees stay behind both. */
  function swapped(program: Program, role: number, test: (item: Instruction) => boolean): Program {
    return withInstructions(program, role, (list) => {
      const [a, b] = placesOf(program.roles[role]!, test) as [number, number]
      return swap(list, a, b)
    })
  }

  it.each([
    ['sends', 0, isSend],
    ['receives', 1, isRecv],
  ] as const)('finds two swapped %s, with the circle', (_, role, test) => {
    const { findings, skipped } = verifyProgram(swapped(gpipe, role, test))
    const found = findings[0]!
    expect(found).toMatchObject({ code: 'DEADLOCK', ranks: [0, 2] })
    expect(findings.map(({ code }) => code)).toContain('CHANNEL_ORDER')
    expect(skipped).toEqual(['bufferedDeadlock', 'oneQueue'])
    // Rank 0 sends a before b where rank 2 receives b before a.
    expect(found.cycle).toHaveLength(2)
    const [first, second] = found.cycle!
    expect([first!.from.rank, second!.from.rank].sort()).toEqual([0, 2])
    for (const edge of found.cycle!) {
      expect(edge.why).toBe('order')
      expect(edge.from.rank).toBe(edge.to.rank)
      expect(edge.from.instruction).toBeLessThan(edge.to.instruction)
    }
  })

  it('finds crossed sends under rendezvous, which channel slots resolve', () => {
    // Both ranks send before they receive.
    const once = communicationProgram([
      ['one send #1 a to pipeline+1', 'one recv #2 b from pipeline+1'],
      ['one send #2 a to pipeline-1', 'one recv #1 b from pipeline-1'],
    ])
    expect(codes(once)).toEqual(['DEADLOCK'])
    expect(verifyProgram(once).proven).toContain('bufferedDeadlock')
    const twice = [
      [
        'one send #1 a to pipeline+1',
        'one send #3 c to pipeline+1',
        'one recv #2 b from pipeline+1',
        'one recv #4 d from pipeline+1',
      ],
      [
        'one send #2 a to pipeline-1',
        'one send #4 c to pipeline-1',
        'one recv #1 b from pipeline-1',
        'one recv #3 d from pipeline-1',
      ],
    ]
    const found = verifyProgram(communicationProgram(twice, 1)).findings
    expect(found.map(({ code }) => code)).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    // Rank 1 has no room for its second message before rank 0 takes the first, and the other way round.
    expect(found[1]!.cycle!.map(({ why }) => why).sort()).toEqual(['order', 'order', 'slot', 'slot'])
    expect(codes(communicationProgram(twice, 2))).toEqual(['DEADLOCK'])
  })

  it('accepts exchanges in both directions, and tells apart those that cross', () => {
    const both = [
      ['one exchange send #1 a to pipeline+1 | recv #2 b from pipeline+1'],
      ['one exchange send #2 a to pipeline-1 | recv #1 b from pipeline-1'],
    ]
    expect(codes(communicationProgram(both))).toEqual([])
    // Each rank's exchange needs the other's second one.
    const crossed = [
      [
        'one exchange send #1 a to pipeline+1 | recv #4 b from pipeline+1',
        'one exchange send #2 a to pipeline+1 | recv #3 d from pipeline+1',
      ],
      [
        'one exchange send #3 a to pipeline-1 | recv #2 b from pipeline-1',
        'one exchange send #4 a to pipeline-1 | recv #1 d from pipeline-1',
      ],
    ]
    expect(codes(communicationProgram(crossed))).toContain('DEADLOCK')
  })

  it('finds circles through memory', () => {
    // Each rank passes on what it waits for, on streams that do not hold each other up.
    const circle = communicationProgram([
      ['one recv #2 b from pipeline+1', 'two send #1 b to pipeline+1'],
      ['two recv #1 b from pipeline-1', 'one send #2 b to pipeline-1'],
    ])
    const { findings } = verifyProgram(circle)
    expect(findings.map(({ code }) => code)).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    expect(findings[0]!.cycle!.map(({ why }) => why)).toEqual(['data', 'data'])
    expect(findings[1]!.cycle!.map(({ why }) => why).sort()).toEqual(['data', 'data', 'meets', 'meets'])
  })

  it('finds collectives in opposite orders on one stream, and on two that a single queue cannot serve', () => {
    const collectives = (stream: string): Program =>
      communicationProgram([
        ['one all-reduce #1 sum a over both', `${stream} all-reduce #2 sum c over both`],
        [`${stream} all-reduce #2 sum c over both`, 'one all-reduce #1 sum a over both'],
      ])
    expect(codes(collectives('one'))).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
    const { findings } = verifyProgram(collectives('two'))
    expect(findings.map(({ code }) => code)).toEqual(['ISSUE_ORDER'])
    expect(findings[0]!.cycle).toHaveLength(2)
  })

  it('finds a collective and a transfer in opposite orders', () => {
    const found = codes(
      communicationProgram([
        ['one all-reduce #1 sum a over both', 'one send #2 c to pipeline+1'],
        ['one recv #2 b from pipeline-1', 'one all-reduce #1 sum a over both'],
      ]),
    )
    expect(found).toEqual(['DEADLOCK', 'DEADLOCK_BUFFERED'])
  })
})

describe('state', () => {
  it('finds state that is updated in part or twice', () => {
    const [decayed, undecayed] = ['U0', 'U0.undecayed'].map((name) => place(base, 0, ofTask(base, name)))
    expect(changed(base, 0, (list) => drop(list, undecayed!))).toEqual(['STATE_PARTIAL'])
    expect(changed(base, 0, (list) => drop(list, decayed!))).toEqual(['STATE_PARTIAL'])
    expect(changed(base, 0, (list) => duplicate(list, decayed!))).toEqual(
      expect.arrayContaining(['STATE_TWICE', 'WRITE_UNREAD']),
    )
  })
})

describe('memory', () => {
  it('refuses what does not fit the budget', () => {
    // Every buffer of the arena in whole cache lines.
    const bytes = Math.max(
      ...base.roles.map((role) =>
        role.buffers.reduce((sum, { shape, dtype, slots }) => {
          const size = shape.reduce((product, dim) => product * dim, dtype === 'f64' ? 8 : 4)
          return sum + slots * Math.ceil(size / 64) * 64
        }, 0),
      ),
    )
    expect(codes(base, { budgetBytes: bytes })).toEqual([])
    expect(codes(base, { budgetBytes: bytes - 1 })).toEqual(['MEMORY_BUDGET'])
    expect(codes(base, { budgetBytes: bytes, workspaceBytes: 1 })).toEqual(['MEMORY_BUDGET'])
  })
})
