import { test } from 'vitest'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { modelFromShortName } from '../src/models/index.ts'
import { lowerPlan, printProgram, verifyProgram } from '../src/program/index.ts'
test('x', () => {
  const model = modelFromShortName('llama:layers=4,hidden=4,heads=2,context=4,vocab=8,mlp=4,tied=false,kvHeads=1')
  const doc = { meshwright: 1, mesh: { pipeline: 2, data: 2 }, schedule: { name: 'zeropp', unit: 2 }, zero: { stage: 3 }, batch: { samples: 4, microbatches: 2 }, dtype: 'f64', clip: null }
  const p = lowerPlan(resolvePlan(parsePlan(JSON.stringify(doc)), model), model)
  console.log(printProgram(p))
  console.log(verifyProgram(p).findings.map((f) => f.message))
})
