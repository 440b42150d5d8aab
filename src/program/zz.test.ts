import { it } from 'vitest'
import { writeFileSync } from 'node:fs'
import { modelFromShortName } from '../models/index.ts'
import { chainStages, generateSchedule } from '../schedule/index.ts'
import { lowerPlan } from './lower/index.ts'
import { printProgram } from './text/print.ts'
import { verifyProgram } from './verify/index.ts'
import { readInstructions } from './columns.ts'
it('x', () => {
  const model = modelFromShortName('gpt:layers=2,hidden=8,heads=2,context=8,vocab=16,mlp=16')
  const plan = { sequence: 8, dtype: 'f64', stageOfBlock: [0,0,1,1], samplesPerMicrobatch: 6, stages: [{index:0, replicas:3},{index:1,replicas:2}], schedule: generateSchedule('1f1b', chainStages(2, 2), {}), microbatches: 2, bucketBytes: 8192, clip: 1, optimizer: {name:'adamw', settings:{}} }
  const p = lowerPlan(plan as any, model)
  console.log(JSON.stringify(verifyProgram(p)))
  writeFileSync('/tmp/prog/short.txt', printProgram(p))
  writeFileSync('/tmp/prog/p.json', JSON.stringify({...p, roles: p.roles.map(r => ({...r, code: readInstructions(r.code)}))}, null, 1))
})
