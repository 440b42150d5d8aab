import { describe, expect, it } from 'vitest'
import { specimenText } from '../../../test/support/specimens.ts'
import { parseProgram } from './parse.ts'
import { printProgram } from './print.ts'

const minimal = (work: string, rest = ''): string =>
  `program 1\nwork ${work}\nchannel slots 1\nmesh pipeline=0: tensor=2, data=2\n${rest}`

const refusal = (text: string): unknown => {
  try {
    parseProgram(text)
  } catch (error) {
    return error
  }
  return undefined
}

describe('work that a program declares itself', () => {
  it.each([
    ['declared: 1 stages, 2 microbatches', {}],
    ['declared: 1 stages, 2 microbatches, phases F B U', { phases: ['F', 'B', 'U'] }],
    ['declared: 1 stages, 2 microbatches, 4 slices, phases A', { slices: 4, phases: ['A'] }],
    ['declared: 1 stages, 2 microbatches, until converged', { until: 'converged' }],
    ['declared: 1 stages, 2 microbatches, phases', { phases: [] }],
  ])('%s', (work, more) => {
    const program = parseProgram(minimal(work))
    expect(program.work).toEqual({ method: 'declared', stages: 1, microbatches: 2, ...more })
    expect(parseProgram(printProgram(program, { full: true }))).toStrictEqual(program)
  })

  it.each([
    ['declared: 1 stages, 2 microbatches, phases F Q', 'expected a phase, found "Q"'],
    ['declared: 1 stages, 2 microbatches, phases F F', 'a phase is given twice'],
    ['declared: 1 stages, 2 microbatches, until a, until b', 'expected slices, phases or until, each once'],
    ['declared: 4000 stages, 1000 microbatches, 2 slices', '2 slices of each micro-batch are too many'],
    ['declared: 1 stages, 2 microbatches, 0 slices', 'a number of slices is 0'],
    ['gradient: 1 stages, 2 microbatches, phases F', 'unexpected ","'],
  ])('%s is refused', (work, message) => {
    expect(refusal(minimal(work))).toMatchObject({ code: 'PROGRAM_TEXT', message, at: { line: 2 } })
  })
})

describe('what the specimens brought', () => {
  it('is in the program as the text has it', () => {
    const program = parseProgram(
      minimal(
        'declared: 1 stages, 1 microbatches',
        `devices shared over tensor
stream compute: compute order ready
stream hostCompute: cpu
group all: tensor, data
task copy: kernel copy
task sort: missing "sort by key"
  read i32[4]
  write i32[4]
  write f64[]
  cost 3
role pipeline=0
  buffer a: f64[2] state frozen host
  buffer b: f64[2] sum over all unsynced
  hostCompute run copy a[t-1] -> b
  compute all-reduce #1 mean b over all`,
      ),
    )
    expect(program.mesh.sharedOver).toEqual(['tensor'])
    expect(program.streams[0]).toEqual({ name: 'compute', resource: 'compute', order: 'ready' })
    expect(program.streams[1]).toEqual({ name: 'hostCompute', resource: 'cpu' })
    expect(program.tasks[1]).toMatchObject({
      kind: 'missing',
      missing: 'sort by key',
      reads: [{ dtype: 'i32', shape: [4] }],
      writes: [
        { dtype: 'i32', shape: [4] },
        { dtype: 'f64', shape: [] },
      ],
      cost: 3,
    })
    const [role] = program.roles
    expect(role!.buffers[0]).toMatchObject({ state: true, frozen: true, tier: 'host' })
    expect(role!.buffers[1]).toMatchObject({ sumOver: 'all', unsynced: true })
    expect(role!.values[0]).toMatchObject({ step: -1, slot: 1 })
    expect(parseProgram(printProgram(program, { full: true }))).toStrictEqual(program)
  })

  it.each([
    ['devices shared over pipe', 'the mesh has no axis "pipe"'],
    ['devices shared over data\ndevices shared over data', 'a second line "devices"'],
    ['stream a: gpu', 'expected what the stream occupies, found "gpu"'],
    ['stream a: cpu order soon', 'expected "ready", found "soon"'],
    ['task a: missing', 'expected what is missing, found the end of the line'],
    ['task a: missing "b"\n  read f16[2]', 'expected a dtype, found "f16"'],
    ['task a: kernel sort', 'expected a kernel, found "sort"'],
  ])('%s is refused', (rest, message) => {
    expect(refusal(minimal('declared: 1 stages, 1 microbatches', rest))).toMatchObject({ message })
  })

  it('gives older versions of a state a slot each, and the next one that of the oldest', () => {
    const [first] = parseProgram(specimenText('15')).roles
    const slots = first!.values
      .filter(({ buffer }) => first!.buffers[buffer]!.name === 'w0')
      .map(({ step, slot }) => [step, slot])
    expect(slots).toEqual([
      [-2, 2],
      [-1, 1],
      [0, 0],
      [1, 2],
    ])
  })
})
