import { it } from 'vitest'
import { parsePlan, PlanError } from './index.ts'
it('x', () => { try { parsePlan('meshwright: 1\nmesh: &m { pipeline: 0 }\nbatch: *m') } catch (e) { console.log((e as PlanError).message) } })
