import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeInstructions, readInstruction, readInstructions } from './columns.ts'
import type { CollectiveOperation, Instruction, Operand, TransferPart, Write } from './types.ts'

const small = fc.nat(1000)
const operand: fc.Arbitrary<Operand> = fc
  .tuple(small, fc.option(small, { nil: undefined }))
  .map(([value, region]) => (region === undefined ? { value } : { value, region }))
const write: fc.Arbitrary<Write> = fc
  .tuple(operand, fc.constantFrom('set' as const, 'add' as const))
  .map(([place, mode]) => ({ ...place, mode }))
const part: fc.Arbitrary<TransferPart> = fc
  .tuple(operand, fc.constantFrom('send' as const, 'recv' as const), small, small)
  .map(([place, direction, transfer, peer]) => ({ ...place, direction, transfer, peer }))

const operations: readonly CollectiveOperation[] = [
  'allReduce',
  'reduceScatter',
  'allGather',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'allToAll',
  'permute',
]

const instruction: fc.Arbitrary<Instruction> = fc.oneof(
  fc
    .record({
      stream: small,
      task: small,
      reads: fc.array(operand),
      writes: fc.array(write),
      action: fc.nat(5),
    })
    .map(
      ({ action, ...run }): Instruction =>
        action === 0 ? { kind: 'run', ...run } : { kind: 'run', ...run, action: action - 1 },
    ),
  fc.record({ kind: fc.constant('exchange' as const), stream: small, parts: fc.array(part) }),
  fc
    .record({
      stream: small,
      collective: small,
      operation: fc.constantFrom(...operations),
      reduce: fc.constantFrom(undefined, 'sum' as const, 'max' as const),
      group: small,
      parts: fc.array(fc.tuple(operand, write).map(([source, result]) => ({ source, result }))),
      root: fc.option(small, { nil: undefined }),
      shift: fc.integer({ min: 0, max: 9 }),
    })
    .map(
      ({ reduce, root, shift, ...rest }): Instruction => ({
        kind: 'collective',
        ...rest,
        ...(reduce === undefined ? {} : { reduce }),
        ...(root === undefined ? {} : { root }),
        ...(shift === 0 ? {} : { shift }),
      }),
    ),
  fc.record({
    kind: fc.constant('move' as const),
    stream: small,
    direction: fc.constantFrom('in' as const, 'out' as const),
    port: fc.constantFrom('tokens', 'loss', ''),
    value: small,
  }),
  fc.record({ kind: fc.constant('free' as const), values: fc.array(small) }),
)

describe('instruction columns', () => {
  it('give the instructions back, all and one by one', () => {
    fc.assert(
      fc.property(fc.array(instruction, { maxLength: 12 }), (instructions) => {
        const code = encodeInstructions(instructions)
        expect(code.length).toBe(instructions.length)
        expect(readInstructions(code)).toStrictEqual(instructions.map((item) => ({ ...item })))
        instructions.forEach((item, index) => {
          expect(readInstruction(code, index)).toStrictEqual({ ...item })
        })
      }),
      { numRuns: 100 },
    )
  })

  it('hold each name once', () => {
    const move = (port: string): Instruction => ({ kind: 'move', stream: 0, direction: 'in', port, value: 0 })
    expect(encodeInstructions(['a', 'b', 'a'].map(move)).names).toEqual(['a', 'b'])
  })

  it('refuse an instruction that is not there', () => {
    expect(() => readInstruction(encodeInstructions([]), 0)).toThrow('internal: no instruction 0')
  })
})
