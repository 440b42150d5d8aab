import { describe, expect, it } from 'vitest'
import { changed, codes, isCollective, place } from '../../../test/support/findings.ts'
import {
  drop,
  duplicate,
  isRecv,
  isSend,
  placesOf,
  replace,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import { edited } from '../../../test/support/programText.ts'
import { readInstruction } from '../columns.ts'
import type { CollectivePart, Instruction } from '../types.ts'
import { verifyProgram } from './index.ts'

const base = tinyProgram({ stages: 2, data: 2, microbatches: 3 })

function inRegion({ source, result }: CollectivePart, region: number): CollectivePart {
  return { source: { ...source, region }, result: { ...result, region } }
}

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
        item.kind === 'collective'
          ? { ...item, parts: item.parts.map((part) => inRegion(part, region)) }
          : item,
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
      withInstructions(three, 1, (list) => list.toSpliced(at, 0, { ...added, parts: own.parts })),
    ).findings
    expect(found.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('no member of its group'),
    )
  })

  it('refuses ends that name other values, though all sizes agree', () => {
    const crossed = edited(
      base,
      [/recv (#\d+) x0\[0\]/, 'recv $1 x0[SWAP]'],
      [/recv (#\d+) x0\[1\]/, 'recv $1 x0[0]'],
      [/SWAP/, '1'],
    )
    expect(codes(crossed)).toContain('TRANSFER_VALUE')
  })

  it("refuses rows that land in another replica's share", () => {
    const mirrored = [0, 1].reduce(
      (program, index) =>
        withRole(program, index, (role) => ({
          ...role,
          peers: role.peers.map((peer) => ({
            ...peer,
            axes: [{ name: 'data', scale: -1, offset: 1, divisor: 1 }],
          })),
        })),
      base,
    )
    expect(codes(mirrored)).toEqual(['TRANSFER_ROWS'])
    const two = tinyProgram({ stages: 2, data: [1, 2], microbatches: 2 })
    expect(codes(two)).toEqual([])
    const halves = edited(two, [/x0\[0\]\{0:1\}([\s\S]*?)x0\[0\]\{1:2\}/, 'x0[0]{1:2}$1x0[0]{0:1}'])
    expect(codes(halves)).toEqual(['TRANSFER_ROWS'])
    const one = edited(two, [/x0\[0\]\{0:1\}([\s\S]*?)x0\[0\]\{1:2\}/, 'x0[0]{0:1}$1x0[0]{0:1}'])
    expect(codes(one)).toEqual(['TRANSFER_ROWS'])
  })

  it('refuses members of a collective that reduce other tensors', () => {
    const ends = edited(base, [/(sum g1)\{0:32\}( over tied)/, '$1{32:64}$2'])
    expect(codes(ends)).toContain('COLLECTIVE_VALUE')
  })
})
