import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { serial } from '../src/cli/checkPlan.ts'
import { type Compiled, learningRateOf } from '../src/cli/prepare.ts'
import { createEmulator } from '../src/engine/index.ts'
import { checkEquality } from '../src/engine/training/equality.ts'
import {
  type Action,
  formatAction,
  parseSchedule,
  printSchedule,
  type Schedule,
  validateSchedule,
} from '../src/schedule/index.ts'
import { type Choose, keyOf, randomSchedule, runsToItsEnd } from './support/randomSchedules.ts'
import { replay } from './support/replay.ts'
import {
  compilePlan,
  programOf,
  randomBatches,
  runOn,
  type StepRecord,
  stateOf,
} from './support/trainingCase.ts'

const full = process.env['MESHWRIGHT_FULL'] === '1'
const steps = 2

const shapes = fc
  .record({
    actors: fc.integer({ min: 1, max: 4 }),
    extra: fc.integer({ min: 0, max: 3 }),
    microbatches: fc.integer({ min: 1, max: 5 }),
  })
  .map(({ actors, extra, microbatches }) => ({ actors, stages: actors + extra, microbatches }))

const schedules = fc
  .tuple(shapes, fc.infiniteStream(fc.nat(1_000_000)))
  .map(([shape, stream]) => randomSchedule(shape, chooser(stream)))

function chooser(stream: Iterator<number>): Choose {
  return (count) => (stream.next().value as number) % count
}

interface Mutation {
  readonly schedule: Schedule
  /** Codes of which the findings must have one; undefined: whether it is still a schedule is for `runsToItsEnd` to say. */
  readonly code: string | undefined
  /** What a finding must name. */
  readonly named: string | undefined
}

const mutators: Readonly<Record<string, (schedule: Schedule, choose: Choose) => Mutation>> = {
  drop(schedule, choose) {
    const [actor, at] = somewhere(schedule, choose)
    const dropped = actionAt(schedule, actor, at)
    return {
      schedule: withList(schedule, actor, (list) => list.toSpliced(at, 1)),
      code: 'SCHEDULE_MISSING',
      named: keyOf(dropped),
    }
  },
  duplicate(schedule, choose) {
    const [actor, at] = somewhere(schedule, choose)
    const again = actionAt(schedule, actor, at)
    const to = choose(schedule.actors[actor]!.length + 1)
    return {
      schedule: withList(schedule, actor, (list) => list.toSpliced(to, 0, again)),
      code: 'SCHEDULE_DUPLICATE',
      named: keyOf(again),
    }
  },
  swap(schedule, choose) {
    const [actor, at] = somewhere(schedule, choose)
    const list = schedule.actors[actor]!
    const other = choose(list.length)
    const swapped = list.with(at, list[other]!).with(other, list[at]!)
    return { schedule: withList(schedule, actor, () => swapped), code: undefined, named: undefined }
  },
  move(schedule, choose) {
    const [actor, at] = somewhere(schedule, choose)
    const moved = actionAt(schedule, actor, at)
    const target = choose(schedule.actors.length)
    const without = withList(schedule, actor, (list) => list.toSpliced(at, 1))
    const to = choose(without.actors[target]!.length + 1)
    return {
      schedule: withList(without, target, (list) => list.toSpliced(to, 0, moved)),
      code: target === actor ? undefined : 'SCHEDULE_ACTOR',
      named: target === actor ? undefined : keyOf(moved),
    }
  },
}

function somewhere({ actors }: Schedule, choose: Choose): [number, number] {
  const filled = actors.flatMap((list, actor) => (list.length > 0 ? [actor] : []))
  const actor = filled[choose(filled.length)]!
  return [actor, choose(actors[actor]!.length)]
}

function actionAt({ actors }: Schedule, actor: number, at: number): Action {
  const entry = actors[actor]![at]!
  if ('pair' in entry) throw new Error('no pairs here')
  return entry
}

function withList(
  schedule: Schedule,
  actor: number,
  change: (list: Schedule['actors'][number]) => Schedule['actors'][number],
): Schedule {
  return { ...schedule, actors: schedule.actors.with(actor, change(schedule.actors[actor]!)) }
}

/** Units of two micro-batches, for all actions or for some. */
function withUnits(schedule: Schedule, choose: Choose): Schedule {
  const share = choose(3)
  const unit = (action: Action): Action =>
    choose(2) < share ? { ...action, unit: Math.floor(action.microbatch / 2) } : action
  return {
    ...schedule,
    actors: schedule.actors.map((list) => list.map((entry) => ('pair' in entry ? entry : unit(entry)))),
  }
}

/** Some neighbours that do not need each other as pairs. */
function withPairs(schedule: Schedule, choose: Choose): Schedule {
  let paired = schedule
  for (let attempt = 0; attempt < 4; attempt++) {
    const [actor, at] = somewhere(paired, choose)
    const [first, second] = paired.actors[actor]!.slice(at, at + 2)
    if (first === undefined || second === undefined || 'pair' in first || 'pair' in second) continue
    const changed = withList(paired, actor, (list) => list.toSpliced(at, 2, { pair: [first, second] }))
    if (validateSchedule(changed).length === 0) paired = changed
  }
  return paired
}

describe('random schedules', () => {
  it('are accepted, and read back from their text', () => {
    fc.assert(
      fc.property(schedules, (schedule) => {
        expect(validateSchedule(schedule)).toEqual([])
        expect(parseSchedule(printSchedule(schedule))).toEqual(schedule)
      }),
      { numRuns: full ? 2000 : 150 },
    )
  })

  it.each(Object.entries(mutators))(
    'with one action changed (%s) are refused for the right reason, or still run',
    (_, mutate) => {
      let refused = 0
      fc.assert(
        fc.property(schedules, fc.infiniteStream(fc.nat(1_000_000)), (schedule, stream) => {
          const { schedule: changed, code, named } = mutate(schedule, chooser(stream))
          const findings = validateSchedule(changed)
          if (findings.length > 0) refused++
          if (code === undefined) {
            expect(findings.length === 0).toBe(runsToItsEnd(changed))
            const codes = ['SCHEDULE_ORDER', 'SCHEDULE_DEADLOCK']
            for (const finding of findings) {
              expect(codes).toContain(finding.code)
              // Where it stands is where the list has it.
              const at = changed.actors[finding.actor!]![finding.index!]!
              expect('pair' in at ? '' : formatAction(at)).toBe(formatAction(finding.action!))
              expect(finding.grid?.some((line) => line.includes('>'))).toBe(true)
            }
          } else {
            const finding = findings.find((one) => one.code === code)
            expect(finding).toBeDefined()
            expect(findings.some(({ message }) => message.includes(named!))).toBe(true)
          }
        }),
        { numRuns: full ? 3000 : 200, seed: 7 },
      )
      expect(refused).toBeGreaterThan(20)
    },
  )

  const expected = new Map<string, Promise<StepRecord[]>>()

  async function differences(
    schedule: Schedule,
    more: Readonly<Record<string, unknown>> = {},
  ): Promise<readonly string[]> {
    const compiled = compilePlan({
      meshwright: 1,
      model: `gpt:layers=${schedule.stages},hidden=8,heads=2,context=4,vocab=16,mlp=8`,
      mesh: { pipeline: schedule.actors.length, data: 1 },
      schedule: { text: printSchedule(schedule) },
      batch: { samples: 2 * schedule.microbatches, microbatches: schedule.microbatches },
      dtype: 'f64',
      learningRate: { kind: 'constant', peak: 0.01 },
      clip: 0.05,
      ...more,
    })
    const engine = createEmulator(programOf(compiled))
    try {
      const found = await checkEquality({
        actual: engine,
        expected: replay(engine.program, await serialRun(schedule, compiled)),
        state: stateOf(compiled),
        optimizer: compiled.optimizer,
        learningRate: learningRateOf(compiled.document, steps),
        batches: randomBatches(compiled, steps),
        tolerance: 1e-9,
      })
      return found.filter(({ equal }) => !equal).map(({ kind }) => kind)
    } finally {
      await engine.stop()
    }
  }

  function serialRun({ stages, microbatches }: Schedule, compiled: Compiled): Promise<StepRecord[]> {
    const key = `${stages} ${microbatches}`
    const known = expected.get(key) ?? runOn('emulator', serial(compiled), randomBatches(compiled, steps))
    expected.set(key, known)
    return known
  }

  it('train as serial training does', async () => {
    await fc.assert(
      fc.asyncProperty(schedules, async (schedule) => {
        expect(await differences(schedule)).toEqual([])
      }),
      { numRuns: full ? 300 : 25 },
    )
  })

  it('with units and pairs, under any ZeRO and recomputation, train as serial training does', async () => {
    const mode = fc.constantFrom('action', 'unit', 'step')
    const zeros = fc.oneof(
      fc.record({ stage: fc.constant(1) }),
      fc.record({ stage: fc.constant(2), reduce: mode }),
      fc.record({
        stage: fc.constant(3),
        gather: mode,
        reduce: mode,
        prefetch: fc.boolean(),
        keepLast: fc.boolean(),
      }),
    )
    await fc.assert(
      fc.asyncProperty(
        schedules,
        zeros,
        fc.constantFrom('none', 'attention', 'full'),
        fc.infiniteStream(fc.nat(1_000_000)),
        async (schedule, zero, recompute, stream) => {
          const choose = chooser(stream)
          const grouped = withPairs(withUnits(schedule, choose), choose)
          const pipeline = schedule.actors.length
          expect(await differences(grouped, { mesh: { pipeline, data: 2 }, zero, recompute })).toEqual([])
        },
      ),
      { numRuns: full ? 200 : 15 },
    )
  })

  it('that still run after a swap or a move train as serial training does', async () => {
    const mostRuns = full ? 300 : 20
    let run = 0
    await fc.assert(
      fc.asyncProperty(
        schedules,
        fc.constantFrom('swap', 'move'),
        fc.infiniteStream(fc.nat(1_000_000)),
        async (schedule, kind, stream) => {
          const { schedule: changed } = mutators[kind]!(schedule, chooser(stream))
          if (run >= mostRuns || validateSchedule(changed).length > 0) return
          run++
          expect(await differences(changed)).toEqual([])
        },
      ),
      // What is counted below must not depend on luck.
      { numRuns: full ? 3000 : 300, seed: 7 },
    )
    expect(run).toBeGreaterThan(3)
  })
})
