import { describe, expect, it, test } from 'vitest'
import { MeshwrightError } from '../src/base/index.ts'
import { createEmulator, createLocalEngine, type Engine, type HostTensor } from '../src/engine/index.ts'
import { stateTensors } from '../src/engine/state.ts'
import {
  formatInstruction,
  type Instruction,
  type Program,
  parseProgram,
  printProgram,
  readInstructions,
  type Task,
  verifyProgram,
} from '../src/program/index.ts'
import { type CostModel, simulateProgram, unitCosts } from '../src/simulate/index.ts'
import { drop, swap, withInstructions } from './support/programs.ts'
import { type SpecimenRun, specimenRuns } from './support/specimenRuns.ts'
import { specimens } from './support/specimens.ts'

/** One hand-written Program for each system of the papers: the proof that one Program carries them all. */
const read = (text: string, name: string): Program => parseProgram(text, { file: name })

/** What no engine can run yet, as the specimens' own text says it. */
const missing: Readonly<Record<string, readonly string[]>> = {
  '06-dpp-pmrf': ['gatherLabels', 'energy', 'sortByKey', 'minimumByKey', 'classSums', 'estimate'],
}

/** Numbers of those with copies, means, older versions of state or shared devices. */
const notLocal: readonly string[] = ['04', '08', '12', '13', '14', '15', '19', '21']

/** Invariants that are not asked, and why. */
const notAsked: Readonly<Record<string, (program: Program) => boolean>> = {
  memory: () => true, // no budget is given
  norm: ({ tasks }) => !tasks.some(readsNorm), // nothing is clipped
  terms: ({ work }) => work.method === 'declared', // the program says itself what is a term of a sum
  copies: ({ work }) => work.method === 'declared', // and what a rank has for itself
}

/** Everything takes time, also what no schedule names. */
const costs: CostModel = {
  ...unitCosts(),
  run: ({ task }) => (task.kind === 'missing' ? task.cost! : 1),
  collective: () => 1,
  move: () => 1,
}

function readsNorm(task: Task): boolean {
  return task.kind === 'graph' && task.graph.inputs.some(({ name }) => name === 'sumOfSquares')
}

test('there is one for each of the 21 systems', () => {
  expect(specimens.map(({ number }) => Number(number))).toEqual(
    Array.from({ length: 21 }, (_, index) => index + 1),
  )
})

describe.each(specimens)('$name', ({ name, number, text }) => {
  const program = read(text, name)

  it('says what it shows, and what is missing', () => {
    const head = text.slice(0, text.indexOf('\nprogram')).replaceAll('\n#', '').trim()
    expect(head).toContain(`(papers/${name}.md)`)
    expect(head).toMatch(
      / (Missing: .+\. Everything that is here runs|Everything runs|Missing: every task)\.$/,
    )
    expect(/Missing: every task/.test(head)).toBe(missing[name] !== undefined)
    const tasks = program.tasks.flatMap((task) => (task.kind === 'missing' ? [task.name] : []))
    expect(tasks).toEqual(missing[name] ?? [])
  })

  it('prints back', () => {
    const printed = printProgram(program, { full: true })
    expect(read(printed, name)).toStrictEqual(program)
    expect(printProgram(read(printed, name), { full: true })).toBe(printed)
  })

  it('verifies: every invariant that is asked is proven', () => {
    const { findings, skipped } = verifyProgram(program)
    expect(findings).toEqual([])
    for (const invariant of skipped) expect(notAsked[invariant]?.(program), invariant).toBe(true)
  })

  it('simulates, everything in time and nothing left', () => {
    for (const engine of ['independent', 'turns'] as const) {
      const result = simulateProgram(program, costs, { engine })
      expect(result.stepSeconds).toBeGreaterThan(0)
      const instructions = result.ranks.reduce((sum, { role }) => sum + program.roles[role]!.code.length, 0)
      expect(result.instructions).toBe(instructions)
    }
  })

  const run = specimenRuns[number]
  it('has no instruction to spare: without any one it is refused, or gives something else', async () => {
    for (const { changed, line } of accepted(program, 1, (list, at) => drop(list, at)))
      expect(
        run === undefined || (await problem(changed, run)) === undefined ? line : undefined,
      ).toBeUndefined()
  })

  it('is refused, or gives the same, where neighbours change places', async () => {
    const swaps = accepted(program, 3, (list, at) => (at === 0 ? list : swap(list, at - 1, at)))
    for (const { changed, line } of run === undefined ? [] : swaps)
      expect(await problem(changed, run!), line).toBeUndefined()
  })

  if (run === undefined)
    it('cannot run yet, and the emulator says what is missing', async () => {
      const engine = createEmulator(program)
      await engine.writeState(initialState(program))
      await expect(engine.step({ tensors: {}, scalars: {} })).rejects.toMatchObject({
        code: 'EMULATE_MISSING',
      })
    })
  else
    it('runs as its mathematics says', async () => {
      await compare(createEmulator(program), run)
    })

  if (run !== undefined)
    it(`${notLocal.includes(number) ? 'is refused by' : 'runs the same on'} the local engine`, async () => {
      const started = createLocalEngine(program)
      if (notLocal.includes(number))
        await expect(started).rejects.toMatchObject({ code: 'ENGINE_UNSUPPORTED' })
      else {
        const engine = await started
        try {
          await compare(engine, run)
        } finally {
          await engine.stop()
        }
      }
    })
})

/** The changes at every one, or every third, instruction that the verifier has nothing against. */
function accepted(
  program: Program,
  each: number,
  change: (list: Instruction[], at: number) => readonly Instruction[],
): { readonly changed: Program; readonly line: string }[] {
  return program.roles.flatMap((role, index) =>
    readInstructions(role.code).flatMap((_, at) => {
      if (at % each !== 0) return []
      const changed = withInstructions(program, index, (list) => change(list, at))
      if (verifyProgram(changed).findings.length > 0) return []
      return [{ changed, line: formatInstruction(program, role, at) }]
    }),
  )
}

/** What a run gives that it should not. What the verifier accepts breaks no rule of the emulator. */
async function problem(program: Program, run: SpecimenRun): Promise<unknown> {
  try {
    await compare(createEmulator(program), run)
    return undefined
  } catch (error) {
    if (error instanceof MeshwrightError) throw error
    return error
  }
}

function filler(name: string, index: number): number {
  const seed = [...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0)
  return (((7 * index + 5 * seed) % 11) - 5) / 8
}

function initialState(program: Program, given: SpecimenRun['initial'] = {}): Map<string, HostTensor> {
  return new Map(
    [...stateTensors(program)].map(([name, { dtype, shape }]): [string, HostTensor] => {
      const length = shape.reduce((product, size) => product * size, 1)
      const value = (index: number): number =>
        given[name]?.[index] ?? (dtype === 'i32' ? 0 : filler(name, index))
      const values = Array.from({ length }, (_, index) => value(index))
      return dtype === 'i32'
        ? [name, { dtype: 'i32', shape, data: Int32Array.from(values) }]
        : [name, { dtype: 'f64', shape, data: Float64Array.from(values) }]
    }),
  )
}

async function compare(engine: Engine, run: SpecimenRun): Promise<void> {
  const { tokens = [], scalars = {}, tolerance = 1e-12 } = run
  const initial = initialState(engine.program, run.initial)
  // What the device has is the short form of the masters.
  for (const [name, tensor] of initial)
    if (initial.has(`master${name}`))
      initial.set(`master${name}`, { ...initial.get(`master${name}`)!, data: tensor.data })
  await engine.writeState(initial)
  let state = plain(initial)
  const older: Record<string, readonly number[]>[] = []
  for (let step = 0; step < run.steps; step++) {
    const rotated = [...tokens.slice(step), ...tokens.slice(0, step)]
    const wanted = run.wanted({ state, older, tokens: rotated, scalars })
    const result = await engine.step({
      tensors: tokens.length === 0 ? {} : { tokens: Int32Array.from(rotated) },
      scalars,
    })
    const found = plain(await engine.readState())
    for (const [name, value] of Object.entries(wanted.scalars ?? {}))
      expectClose(result.scalars[name], value, tolerance, name)
    for (const [name, values] of Object.entries(wanted.state ?? {}))
      values.forEach((value, index) => {
        expectClose(found[name]![index], value, tolerance, `${name} ${index}`)
      })
    expect({ ...wanted.state, ...wanted.scalars }).not.toEqual({})
    older.unshift(state)
    state = found
  }
}

function expectClose(found: number | undefined, wanted: number, tolerance: number, what: string): void {
  expect(Math.abs(found! - wanted), what).toBeLessThan(tolerance * Math.max(1, Math.abs(wanted)))
}

function plain(state: ReadonlyMap<string, HostTensor>): Record<string, readonly number[]> {
  return Object.fromEntries([...state].map(([name, { data }]) => [name, [...data]]))
}
