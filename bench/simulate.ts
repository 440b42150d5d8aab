/** How many instructions the simulator goes through in a second, on one thread: `npm run bench:simulate`. */
import { parseArgs } from 'node:util'
import { median } from '../src/base/index.ts'
import { modelFromShortName } from '../src/models/index.ts'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { lowerPlan, type Program } from '../src/program/index.ts'
import { playProgram, simulateProgram, unitCosts } from '../src/simulate/index.ts'

const { values } = parseArgs({
  options: {
    stages: { type: 'string', default: '16' },
    microbatches: { type: 'string', default: '512' },
    rounds: { type: 'string', default: '9' },
    json: { type: 'boolean', default: false },
  },
})

function pipeline(stages: number, microbatches: number): Program {
  const name = `gpt:layers=${stages},hidden=4,heads=2,context=4,vocab=8,mlp=4`
  const model = modelFromShortName(name)
  const document = {
    meshwright: 1,
    model: name,
    mesh: { pipeline: stages },
    schedule: '1f1b',
    batch: { samples: microbatches, microbatches },
  }
  return lowerPlan(resolvePlan(parsePlan(JSON.stringify(document)), model), model)
}

/** Median seconds of an act after two that warm up. */
function timed(act: () => void, rounds: number): number {
  const seconds: number[] = []
  for (let round = -2; round < rounds; round++) {
    const began = performance.now()
    act()
    if (round >= 0) seconds.push((performance.now() - began) / 1000)
  }
  return median(seconds)
}

const [stages, microbatches] = [Number(values.stages), Number(values.microbatches)]
const rounds = Number(values.rounds)
const program = pipeline(stages, microbatches)
const instructions = program.roles.reduce((sum, { code }) => sum + code.length, 0)
const cases = {
  times: () => playProgram(program, unitCosts()),
  turns: () => playProgram(program, unitCosts(), { engine: 'turns' }),
  local: () => playProgram(program, unitCosts(), { engine: 'local' }),
  everything: () => simulateProgram(program, unitCosts()),
} as const
const results = Object.entries(cases).map(([name, act]) => {
  const seconds = timed(act, rounds)
  return { name, seconds, instructionsPerSecond: instructions / seconds }
})
if (values.json) process.stdout.write(`${JSON.stringify({ stages, microbatches, instructions, results })}\n`)
else {
  process.stdout.write(
    `1F1B, ${stages} stages x ${microbatches} micro-batches, ${instructions} instructions\n`,
  )
  for (const { name, seconds, instructionsPerSecond } of results)
    process.stdout.write(
      `  ${name.padEnd(11)} ${(1000 * seconds).toFixed(1).padStart(8)} ms  ${(instructionsPerSecond / 1e6).toFixed(2)} million a second\n`,
    )
}
