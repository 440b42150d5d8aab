import { describe, expect, it } from 'vitest'
import { changed, codes, isFree, ofTask, place, runPlace } from '../../../test/support/findings.ts'
import {
  drop,
  duplicate,
  isRecv,
  move,
  placesOf,
  replace,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import { readInstruction } from '../columns.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 3 })
const unequal = tinyProgram({ stages: 2, data: [2, 1], microbatches: 2 })

describe('lifetimes', () => {
  it('finds a read before its write', () => {
    const [forward, backward] = [runPlace(base, 0, 'F'), runPlace(base, 0, 'B')]
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
    const early = runPlace(base, 0, 'F')
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

  it('finds buffers that cannot share their slots', () => {
    const shared = withRole(base, 0, (role) => {
      const { pool } = role.buffers.find(({ name }) => name === 'w0')!
      return {
        ...role,
        buffers: role.buffers.map((buffer) => (buffer.name === 'g0' ? { ...buffer, pool } : buffer)),
      }
    })
    expect(codes(shared)).toContain('SLOT_SHARED')
  })

  it('finds a slot that the buffer does not have', () => {
    const narrow = withRole(base, 0, (role) => ({
      ...role,
      pools: role.pools.with(role.buffers.find(({ name }) => name === 'r0.0')!.pool, { slots: 1 }),
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
    const backward = runPlace(base, 0, 'B', 2)
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
