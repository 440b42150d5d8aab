import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  drop,
  duplicate,
  swap,
  type TinyPlan,
  tinyProgram,
  withInstructions,
  withRole,
} from '../../../test/support/programs.ts'
import { tensorProgram } from '../../../test/support/tensorParallel.ts'
import { MeshwrightError } from '../../base/index.ts'
import { readInstructions } from '../columns.ts'
import { submeshRanks } from '../mesh.ts'
import type { BufferSpec, Instruction, Program, Role } from '../types.ts'
import { verifyProgram } from '../verify/index.ts'
import { parseProgram } from './parse.ts'
import { printProgram } from './print.ts'

const full = (program: Program): string => printProgram(program, { full: true })

describe('the full text of a lowered program', () => {
  const plans: TinyPlan[] = [
    { stages: 1 },
    { stages: 2, data: 2, clip: null },
    { stages: 4, microbatches: 5, schedule: '1f1b b', model: 'llama' },
    { stages: 2, data: [3, 2], microbatches: 2, schedule: 'gpipe' },
    { stages: 3, data: [1, 2, 1], tied: false },
  ]
  it.each(plans)('gives it back: %o', (plan) => {
    const program = tinyProgram(plan)
    expect(parseProgram(full(program))).toStrictEqual(program)
    const forward = tinyProgram(plan, { method: 'infer' })
    expect(parseProgram(full(forward))).toStrictEqual(forward)
  })

  it('gives it back with blocks, and places that they begin at', () => {
    const program = tensorProgram({ data: 2, tensor: 2 })
    expect(parseProgram(full(program))).toStrictEqual(program)
    const odd = withRole(program, 0, (role) => ({
      ...role,
      buffers: role.buffers.map((buffer): BufferSpec => {
        if (buffer.name === 'start') return { ...buffer, constant: { start: { axes: [], step: 0 } } }
        if (buffer.name === 'owner')
          return { ...buffer, constant: { start: { axes: ['a b', 'data'], step: 7 } } }
        const block = { shape: [2, 3], axes: [['x', 'a b'], []] }
        return { ...buffer, ...(buffer.pack && { pack: buffer.pack.map((entry) => ({ ...entry, block })) }) }
      }),
    }))
    expect(parseProgram(full(odd))).toStrictEqual(odd)
    expect(full(odd)).toContain('block [2/x/"a b", 3] owned')
  })

  it('gives it back with gradients as a port', () => {
    const program = tinyProgram({ stages: 2 }, { gradients: true })
    expect(parseProgram(full(program))).toStrictEqual(program)
  })

  it('gives back what a changed program does, and what the verifier has against it', () => {
    const programs = [
      tinyProgram({ stages: 2, data: [2, 1], microbatches: 2 }),
      tinyProgram({ stages: 3, microbatches: 2 }),
    ]
    const changes = [drop, duplicate, swap]
    fc.assert(
      fc.property(fc.nat(1), fc.nat(), fc.nat(2), fc.nat(), fc.nat(), (which, role, change, a, b) => {
        const base = programs[which]!
        const at = role % base.roles.length
        const { length } = base.roles[at]!.code
        const changed = withInstructions(base, at, (list: Instruction[]) =>
          changes[change]!(list, a % length, b % length),
        )
        const again = parseProgram(full(changed))
        expect(full(again)).toBe(full(changed))
        expect(verifyProgram(again)).toEqual(verifyProgram(changed))
      }),
      { numRuns: 20, seed: 5 },
    )
  })

  it('has what no lowering makes', () => {
    const base = tinyProgram({ stages: 2, microbatches: 1 })
    const odd = withRole(base, 1, (role): Role => {
      const [first, ...others] = role.buffers
      const strange = { ...first!, name: 'a "b" c', tier: 'host' as const }
      const { length: pool } = role.pools
      const constant = { ...first!, name: 'free', pool, pack: [], state: undefined, constant: { isZero: [] } }
      const { pack: _pack, state: _state, ...plain } = constant
      return {
        ...role,
        name: 'last one',
        buffers: [strange, ...others, plain],
        pools: [...role.pools, { slots: 2 }],
        actions: role.actions.map((action) => ({ ...action, slice: 2, unit: 1 })),
        peers: [
          {
            pipeline: -1,
            axes: [
              { name: 'a', scale: 0, offset: 3, divisor: 1 },
              { name: 'b', scale: -1, offset: -2, divisor: 1 },
              { name: 'c', scale: 1, offset: 0, divisor: 3 },
              { name: 'd', scale: 0, offset: -1, divisor: 4 },
            ],
          },
        ],
        values: role.values.map((value) => (value.buffer === 2 ? { ...value, slot: 5, step: -1 } : value)),
      }
    })
    const program = { ...odd, streams: odd.streams.map((item) => ({ ...item, name: `${item.name} x` })) }
    expect(parseProgram(full(program))).toStrictEqual(program)
  })
})

const handwritten = `
# A ring of two: each passes on its part, then adds what came.
program 1

work infer: 2 stages, 1 microbatches
channel slots 1
mesh pipeline=0..1: data = 2     # four ranks
stream compute: compute
stream net:     network
group pair: data

task norm: kernel sumSquares
task add: graph
  read x
  read y
  write z
  graph 1
  # the graph room's own text
  input x activation %0: f64[4]
  input y activation %1: f64[4]

  %2: f64[4] = add(%0, %1)
  output z %2

role pipeline=0
  buffer part.0: f64[4]
  buffer part.1: f64[4] x 3
  buffer part.2: f64[4]
  buffer   sum: f64[]
  buffer mine: f64[] constant data=0
net move in batch -> part.0[0]
  net exchange send #1 part.0[0] to pipeline + 1
             | recv #2 part.1[0]{0:2} from pipeline+1     # the other way
             | recv #3 part.1[0]{2:4} from pipeline+1
    compute run add part.0..1[0]
       -> part.2[0]   for F stage 0 m0
       ; free part.0..1[0]
  compute run norm part.2[0] mine -> sum
  compute run norm part.2[0] mine -> sum +=; free part.2[0]
  net all-reduce #9 sum sum over pair
  net move out sum -> total; free sum
role pipeline=1 data%2=0
  buffer b: f64[4]
  slot b[1] 1
  net move in batch -> b[0]
  net move in batch -> b[1]
  net exchange recv #1 b[2] from pipeline-1 | send #2 b[0]{0:2} to pipeline-1 | send #3 b[1]{2:4} to pipeline-1
  free b[0] b[1] b[2]
`

describe('a program written by hand', () => {
  const program = parseProgram(handwritten)
  const [first, second] = program.roles as [Role, Role]

  it('is read as written', () => {
    expect(program.work).toEqual({ method: 'infer', stages: 2, microbatches: 1 })
    expect(program.mesh.submeshes).toEqual([[{ name: 'data', size: 2 }], [{ name: 'data', size: 2 }]])
    expect(submeshRanks(program.mesh, 1)).toEqual({ first: 2, count: 2 })
    const instructions = readInstructions(first.code)
    expect(instructions.map(({ kind }) => kind)).toEqual([
      'move',
      'exchange',
      'run',
      'free',
      'run',
      'run',
      'free',
      'collective',
      'move',
      'free',
    ])
    // Values are numbered as they are named: part.0[0], part.1[0], part.2[0], mine, sum.
    expect(instructions[2]).toEqual({
      kind: 'run',
      stream: 0,
      task: 1,
      reads: [{ value: 0 }, { value: 1 }],
      writes: [{ value: 2, mode: 'set' }],
      action: 0,
    })
    expect(instructions[5]).toMatchObject({ writes: [{ value: 4, mode: 'add' }] })
    expect(instructions[1]).toMatchObject({ parts: [{ direction: 'send' }, { region: 0 }, { region: 1 }] })
    expect(first.actions).toEqual([{ phase: 'F', stage: 0, microbatch: 0 }])
    expect(second).toMatchObject({ pipeline: 1, where: { axis: 'data', modulus: 2, remainder: 0 } })
  })

  it('gets the slots that the text leaves out', () => {
    // part.0 and part.2 share one pool, in which both are live at once; part.1 is said to have its own.
    expect(first.buffers.map(({ pool }) => pool)).toEqual([0, 1, 0, 2, 3])
    expect(first.pools.map(({ slots }) => slots)).toEqual([2, 3, 1, 1])
    // b[1] is in slot 1 by the text; by the rule b[2] is in the next one after b[0] and b[1].
    expect(second.values.map(({ slot }) => slot)).toEqual([0, 1, 2])
    expect(second.pools).toEqual([{ slots: 3 }])
  })

  it('is printed and read again', () => {
    expect(parseProgram(full(program))).toStrictEqual(program)
  })
})

describe('wrong text', () => {
  function refusal(text: string): {
    line: number
    column: number
    message: string
    hint: string | undefined
  } {
    try {
      parseProgram(text, { file: 'p.txt' })
    } catch (error) {
      if (!(error instanceof MeshwrightError)) throw error
      expect(error.code).toBe('PROGRAM_TEXT')
      expect(error.at?.file).toBe('p.txt')
      return { line: error.at!.line!, column: error.at!.column!, message: error.message, hint: error.hint }
    }
    throw new Error('was read')
  }

  const replaced = (from: string, to: string): string => {
    expect(handwritten).toContain(from)
    return handwritten.replace(from, to)
  }

  it.each([
    ['program 1', 'program 2', /version 2/, /version 1/],
    ['program 1', 'graph 1', /expected "program"/, /begins with "program 1"/],
    ['work infer', 'work inver', /found "inver"/, /infer/],
    ['work infer: 2 stages, 1 microbatches', '', /"work" is missing/, /work gradient/],
    ['2 stages', '5000 stages', /stages is 5000/, /from 1 to 4096/],
    ['channel slots 1', 'channel slots 0', /messages is 0/, /from 1/],
    ['channel slots 1', 'channel slots 1\nchannel slots 1', /second line/, undefined],
    ['mesh pipeline=0..1', 'mesh pipeline=1', /coordinate 1 where 0 is due/, /in order/],
    ['data = 2 ', 'data = 2, data = 2 ', /axis data is given twice/, undefined],
    ['data = 2 ', 'data = 9000000 ', /size of an axis is 9000000/, /65536/],
    ['data = 2 ', 'data = 60000 ', /the mesh has 120000 ranks/, /at most/],
    ['net:     network', 'net:     netwrk', /"netwrk"/, /network/],
    ['stream net', 'stream compute', /second stream "compute"/, undefined],
    ['kernel sumSquares', 'kernel sumSquare', /expected a kernel/, /sumSquares/],
    ['read x', 'read q', /no input "q"/, undefined],
    ['add(%0, %1)', 'add(%0, %9)', /in this graph: .*%9/, undefined],
    ['graph 1\n', 'grape 1\n', /graph of task "add" is missing/, /printed in full/],
    ['group pair: data', 'group pair: pipeline at pipeline 0, 0', /given twice/, undefined],
    ['group pair: data', 'group pair: pipeline at pipeline 2', /coordinate is 2/, /from 0 to 1/],
    ['role pipeline=0', 'role pipeline=7', /coordinate is 7/, /from 0 to 1/],
    ['data%2=0', 'model%2=0', /no axis "model"/, undefined],
    ['data%2=0', 'data%3=0', /modulus is 3/, /from 1 to 2/],
    ['buffer part.2', 'buffer part.1', /second buffer "part.1"/, undefined],
    ['part.0: f64[4]', 'part.0: double[4]', /found "double"/, /f64/],
    ['part.0: f64[4]', 'part.0: f64[99999999999999999]', /size is 99999/, undefined],
    ['part.0: f64[4]', 'part.0: f64[999999999, 999999999]', /2\^48/, undefined],
    ['compute run norm', 'compute run nrom', /no task "nrom"/, /norm/],
    ['compute run norm', 'compte run norm', /no stream "compte"/, /compute/],
    ['run norm part.2[0]', 'run norm part.3[0]', /no buffer "part.3"/, /part/],
    ['-> sum\n', 'sum\n', /expected "->"/, /what the task writes/],
    ['part.0..1[0]', 'part.0..7[0]', /last number of the range is 7/, /from 0 to 5/],
    ['mine -> sum\n', 'mine..4 -> sum\n', /ends in a number/, /r0/],
    ['for F stage 0 m0', 'for Q stage 0 m0', /no phase "Q"/, /phases are F/],
    ['for F stage 0 m0', 'for F stage 0 0', /expected a micro-batch|a micro-batch/, undefined],
    ['over pair', 'over everyone', /no group "everyone"/, /pair/],
    ['all-reduce #9', 'all-reduce 9', /expected the number of the collective/, /#12/],
    ['pipeline + 1', 'pipelin + 1', /expected "pipeline"/, /pipeline\+1/],
    ['slot b[1] 1', 'slot b[7] 1', /no instruction names this value/, /remove/],
    ['; free part.2[0]', '; move part.2[0]', /expected "free"/, /only frees/],
    ['free b[0] b[1]', 'free b[0]{0:1} b[1]', /freed as a whole/, undefined],
    ['over pair', 'over pair #2nd', /unexpected "#2nd"/, /comment begins with/],
    ['over pair', 'over pair pair', /unexpected "pair"/, undefined],
    ['over pair', 'over pair ?', /unexpected "\?"/, undefined],
  ])('%j as %j', (from, to, message, hint) => {
    const text = replaced(from, to)
    const found = refusal(text)
    expect(found.message).toMatch(message)
    if (hint !== undefined) expect(found.hint).toMatch(hint)
    // Near the place that was changed, or at the end for what is missing.
    const line = handwritten.slice(0, handwritten.indexOf(from)).split('\n').length
    if (!/missing|no instruction/.test(found.message)) expect(Math.abs(found.line - line)).toBeLessThan(16)
    expect(found.column).toBeGreaterThan(0)
  })

  it('is pointed at to the column', () => {
    const text = replaced('over pair', 'over pare')
    const lines = text.split('\n')
    const line = lines.findIndex((item) => item.includes('pare'))
    expect(refusal(text)).toMatchObject({ line: line + 1, column: lines[line]!.indexOf('pare') + 1 })
    const graph = replaced('add(%0, %1)', 'addd(%0, %1)')
    const inGraph = graph.split('\n').findIndex((item) => item.includes('addd'))
    expect(refusal(graph)).toMatchObject({ line: inGraph + 1, column: 16 })
  })

  const edits = fc.array(
    fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      remove: fc.nat(12),
      insert: fc.oneof(
        fc.string({ maxLength: 6 }),
        fc.constantFrom('{', '..', '#1', ' for ', '\n;', '"', '99999999999', '%', '..9'),
      ),
    }),
    { minLength: 1, maxLength: 3 },
  )

  it.each([
    ['a handwritten one', 200, handwritten],
    ['a full one', 40, full(tinyProgram({ stages: 2, microbatches: 1 }))],
  ])('never crashes when %s is corrupted', (_, numRuns, text) => {
    let refused = 0
    fc.assert(
      fc.property(edits, (list) => {
        let changed = text
        for (const { at, remove, insert } of list) {
          const start = Math.floor(at * text.length)
          changed = changed.slice(0, start) + insert + changed.slice(start + remove)
        }
        try {
          verifyProgram(parseProgram(changed))
        } catch (error) {
          refused++
          expect(error).toBeInstanceOf(MeshwrightError)
          expect(error).toMatchObject({ code: 'PROGRAM_TEXT' })
        }
      }),
      { numRuns, seed: 6 },
    )
    expect(refused).toBeGreaterThan(numRuns / 2)
  })
})

describe('the short text', () => {
  const program = tinyProgram({ stages: 2, data: 2, microbatches: 2 })
  const short = printProgram(program)

  it('is the full text without what tasks and packs hold', () => {
    const bare = (text: string): string[] => text.split('\n').map((line) => line.replace(/ *#[^0-9].*/, ''))
    const lines = bare(full(program))
    expect(bare(short).filter((line) => !lines.includes(line))).toEqual([])
    expect(short.length).toBeLessThan(full(program).length / 4)
  })

  it('has short lines', () => {
    const longest = Math.max(...short.split('\n').map((line) => line.length))
    expect(longest).toBeLessThanOrEqual(132)
  })

  it('prints the roles that it is asked for', () => {
    const one = printProgram(program, { roles: [program.roles[1]!] })
    expect(one).toContain('role pipeline=1  # 2 ranks: 2,3')
    expect(one).not.toContain('role pipeline=0')
  })

  it('reads like this', () => {
    const text = printProgram(parseProgram(handwritten))
    expect(
      text.slice(text.indexOf('role'), text.indexOf('role pipeline=1')),
    ).toBe(`role pipeline=0  # 2 ranks: 0,1, 448 bytes of buffers
  buffer part.0: f64[4] x 2                  # 64 bytes each
  buffer part.1: f64[4] x 3                  # 64 bytes each
  buffer part.2: f64[4] with part.0          # 64 bytes each
  buffer sum:    f64[]  x 1                  # 64 bytes
  buffer mine:   f64[]  x 1 constant data=0  # 64 bytes

  net     move in batch -> part.0[0]
  net     exchange send #1 part.0[0] to pipeline+1 | recv #2 part.1[0]{0:2} from pipeline+1
            | recv #3 part.1[0]{2:4} from pipeline+1
  compute run add part.0[0] part.1[0] -> part.2[0] for F stage 0 m0 ; free part.0[0] part.1[0]
  compute run norm part.2[0] mine -> sum
  compute run norm part.2[0] mine -> sum += ; free part.2[0]
  net     all-reduce #9 sum sum over pair
  net     move out sum -> total ; free sum

`)
  })
})
