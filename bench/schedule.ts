/** What a large schedule costs before it runs anywhere, in CPU seconds by step: `npm run bench:schedule`. */
import { parseArgs } from 'node:util'
import { median } from '../src/base/index.ts'
import { modelFromShortName } from '../src/models/index.ts'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { lowerPlan, verifyProgram } from '../src/program/index.ts'
import { entryCount, scheduleChain, timeSchedule, validateSchedule } from '../src/schedule/index.ts'
import { playProgram, unitCosts } from '../src/simulate/index.ts'

const { values } = parseArgs({
  options: {
    ranks: { type: 'string', default: '16' },
    chunks: { type: 'string', default: '8' },
    microbatches: { type: 'string', default: '512' },
    rounds: { type: 'string', default: '5' },
    /** Of the program; the others are only scheduled. */
    schedule: { type: 'string', default: 'interleaved-1f1b' },
    json: { type: 'boolean', default: false },
  },
})
const [actors, chunks, microbatches] = [
  Number(values.ranks),
  Number(values.chunks),
  Number(values.microbatches),
]
const rounds = Number(values.rounds)

interface Row {
  readonly what: string
  readonly steps: Readonly<Record<string, number>>
}

/** CPU seconds of each step of an act, medians over the rounds after one that warms up. */
function timed(what: string, act: (step: <T>(name: string, run: () => T) => T) => void): Row {
  const seconds = new Map<string, number[]>()
  for (let round = -1; round < rounds; round++)
    act((name, run) => {
      const before = process.cpuUsage()
      const result = run()
      const { user, system } = process.cpuUsage(before)
      const known = seconds.get(name) ?? []
      seconds.set(name, known)
      if (round >= 0) known.push((user + system) / 1e6)
      return result
    })
  return { what, steps: Object.fromEntries([...seconds].map(([name, list]) => [name, median(list)])) }
}

function expectNothing(found: readonly { readonly message: string }[]): void {
  const [first] = found
  if (first !== undefined) throw new Error(first.message)
}

const schedules = [
  { name: 'interleaved-1f1b', parameters: { chunks } },
  { name: 'looped-bfs', parameters: { chunks } },
  { name: 'zeropp', parameters: { chunks } },
  { name: 'zeropp', parameters: { chunks, backward: 'split' } },
] as const

let actions = 0
const scheduled = schedules.map(({ name, parameters }) =>
  timed(name + ('backward' in parameters ? ', backward in halves' : ''), (step) => {
    const schedule = step('generate', () => scheduleChain(name, { actors, microbatches }, parameters))
    expectNothing(step('validate', () => validateSchedule(schedule)))
    step('time', () => timeSchedule(schedule))
    actions = Math.max(actions, entryCount(schedule))
  }),
)

const name = `gpt:layers=${actors * chunks},hidden=8,heads=1,context=4,vocab=16`
const model = modelFromShortName(name)
const document = {
  meshwright: 1,
  model: name,
  mesh: { pipeline: actors },
  schedule: { name: values.schedule, chunks },
  batch: { samples: microbatches, microbatches },
}
let instructions = 0
const compiled = timed(`program, ${values.schedule}`, (step) => {
  const plan = step('resolve', () => resolvePlan(parsePlan(JSON.stringify(document)), model))
  const program = step('lower', () => lowerPlan(plan, model))
  expectNothing(step('verify', () => verifyProgram(program)).findings)
  step('simulate', () => playProgram(program, unitCosts()))
  instructions = program.roles.reduce((sum, { code }) => sum + code.length, 0)
})

const results = [...scheduled, compiled]
if (values.json)
  process.stdout.write(
    `${JSON.stringify({ actors, chunks, microbatches, actions, instructions, results })}\n`,
  )
else {
  process.stdout.write(
    `${actors} ranks x ${chunks} chunks x ${microbatches} micro-batches: up to ${actions} actions, ${instructions} instructions\n`,
  )
  for (const { what, steps } of results) {
    const total = Object.values(steps).reduce((sum, seconds) => sum + seconds, 0)
    const shown = Object.entries({ ...steps, total }).map(
      ([step, seconds]) => `${step} ${seconds.toFixed(3)} s`,
    )
    process.stdout.write(`  ${what.padEnd(28)} ${shown.join('  ')}\n`)
  }
}
