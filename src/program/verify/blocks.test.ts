import { describe, expect, it } from 'vitest'
import { type Edit, edited } from '../../../test/support/programText.ts'
import { tensorProgram } from '../../../test/support/tensorParallel.ts'
import { verifyProgram } from './index.ts'

const base = tensorProgram({ data: 2, tensor: 2 })

function found(...edits: readonly Edit[]): [code: string, message: string] {
  const { findings } = verifyProgram(edited(base, ...edits))
  const [first] = findings.filter(({ code }) => /^(BLOCK|CONSTANT)/.test(code))
  return [first?.code ?? 'none', first?.message ?? '']
}

describe('blocks', () => {
  it('divide dims by the ranks along their axes, and say which do not', () => {
    const [code, message] = found([/a \[2, 4\] block \[2, 4\/tensor\]/g, 'a [1, 8] block [1/tensor, 8]'])
    expect(code).toBe('BLOCK_SIZE')
    expect(message).toBe(
      'a [1, 8] in blocks [1/tensor=2, 8] in w0 of pipeline=0: 1 does not divide by tensor=2',
    )
  })

  it('have the elements of the tensor, or more rows', () => {
    expect(found([/b \[4, 2\] block \[4\/tensor, 2\]/g, 'b [4, 2] block [2/tensor, 2]'])[0]).toBe(
      'BLOCK_SIZE',
    )
    // Nine elements are no rows of two.
    expect(found([/wte \[3, 2\] block/g, 'wte [7] block'])[0]).toBe('BLOCK_SIZE')
    expect(found([/wte \[3, 2\] block/g, 'wte [4, 2] block'])[0]).toBe('none')
  })

  it('fill the pack without meeting each other', () => {
    const [code, message] = found([/b \[4, 2\] block \[4\/tensor, 2\]/g, 'b [4, 2] block [4, 2]'])
    expect(code).toBe('BLOCK_SIZE')
    expect(message).toContain(
      'b [4, 2] in blocks [4, 2] takes elements 8 to 16 of w0 of pipeline=0, which has 14',
    )
  })

  it('lie along axes of the mesh, each of which cuts once', () => {
    expect(found([/\[2, 4\/tensor\]/g, '[2, 4/row]'])).toEqual([
      'BLOCK_AXIS',
      'a in w0 of pipeline=0 is cut along row, which the mesh does not have there',
    ])
    expect(found([/\[2, 4\/tensor\]/g, '[2/tensor, 4/tensor]'])[0]).toBe('BLOCK_AXIS')
  })

  it('are the same for all state of a stage, and kept by all ranks along the axes', () => {
    const { findings } = verifyProgram(
      edited(base, [/(buffer g0: [\s\S]*?)\[2, 4\/tensor\]/, '$1[2/tensor, 4]']),
    )
    expect(findings.map(({ code }) => code)).toContain('PACK_LAYOUT')
    const [role] = base.roles
    const split = (remainder: number): (typeof base.roles)[number] => ({
      ...role!,
      name: `part ${remainder}`,
      where: { axis: 'tensor', modulus: 2, remainder },
    })
    const roles = [split(0), split(1)]
    expect(verifyProgram({ ...base, roles }).findings).toEqual([])
    const without = { ...roles[1]!, buffers: roles[1]!.buffers.map(({ state: _, ...buffer }) => buffer) }
    const codes = verifyProgram({ ...base, roles: [roles[0]!, without] }).findings.map(({ code }) => code)
    expect(codes).toContain('BLOCK_WHOLE')
  })
})

describe('constants', () => {
  it('follow from axes of the mesh', () => {
    expect(found([/place along tensor/, 'place along row'])).toEqual([
      'CONSTANT_PLACE',
      'the constant start of pipeline=0 follows from row, and the mesh has data, tensor there',
    ])
    expect(found([/constant data=0, tensor=0/, 'constant data=0, row=0'])[0]).toBe('CONSTANT_PLACE')
    expect(found([/place along tensor/, 'place along pipeline'])[0]).toBe('CONSTANT_PLACE')
  })

  it('are i32 scalars where something begins', () => {
    expect(found([/buffer start: +i32\[\]/, 'buffer start: i32[1]'])[0]).toBe('CONSTANT_PLACE')
  })
})
