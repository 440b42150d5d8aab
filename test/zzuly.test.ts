import { test } from 'vitest'
import { compilePlan, } from './support/trainingCase.ts'
import { lowerPlan } from '../src/program/index.ts'
import { phaseCosts, simulateProgram } from '../src/simulate/index.ts'
test('u', () => {
  for (const [n, heads, kv, dim, s] of [[2,8,4,2,12],[2,8,8,2,12],[2,8,4,8,12],[2,8,4,2,48],[2,8,4,16,64],[2,8,2,16,64],[4,8,4,16,64],[2,8,4,16,512],[2,4,2,4,16],[2,16,4,8,64]] as const) {
    const b = 2
    const c = compilePlan({ meshwright: 1, model: `llama:layers=1,hidden=${heads*dim},heads=${heads},kvHeads=${kv},context=${s},vocab=48,tied=false,mlp=24`, mesh: { context: n }, layout: 'ulysses', batch: { samples: b, microbatches: 1 }, dtype: 'f64' })
    const r = simulateProgram(lowerPlan(c.plan, c.model), phaseCosts({ F: 1, I: 1, W: 1 }, 1), { engine: 'local' })
    const want = 8 * (n - 1) / n * (2 * (2 * b*s*heads*dim + 2 * b*s*kv*dim) + heads * b*s)
    console.log(JSON.stringify([n, heads, kv, dim, s]), r.bytes.other, want, JSON.stringify(r.bytes))
  }
})
