import { describe, expect, it } from 'vitest'
import { tinyProgram } from '../../test/support/programs.ts'
import { readInstruction } from './columns.ts'
import { rolesByRank } from './mesh.ts'
import { timeProgram } from './timing.ts'

describe.each(['gpipe', '1f1b a'] as const)('times of %s', (schedule) => {
  const [stages, microbatches] = [3, 5]
  const program = tinyProgram({ stages, microbatches, schedule, data: 2 })
  const timed = timeProgram(program)
  const roles = rolesByRank(program)

  it('end after (M + S - 1) forwards and backwards, and the update', () => {
    // GPipe, section 2.3, with a backward of two forwards: the bubble is (S - 1) / (M + S - 1).
    expect(Math.max(...timed.map(({ end }) => end))).toBe((microbatches + stages - 1) * 3 + 1)
  })

  it('fill a rank with its share of that', () => {
    for (let rank = 0; rank < roles.length; rank++) {
      const own = timed.filter((item) => item.rank === rank)
      expect(own.reduce((sum, { start, end }) => sum + end - start, 0)).toBe(microbatches * 3 + 1)
    }
  })

  it('count the update of a stage once, though it has two parts', () => {
    for (const [rank, role] of roles.entries()) {
      const updates = timed.filter((item) => {
        if (item.rank !== rank) return false
        const instruction = readInstruction(role.code, item.instruction)
        if (instruction.kind !== 'run' || instruction.action === undefined) return false
        return role.actions[instruction.action]!.phase === 'U'
      })
      expect(updates.map(({ start, end }) => end - start).sort()).toEqual([0, 1])
    }
  })
})
