import { test } from 'vitest'
import { lowerPlan, verifyProgram, printProgram } from '../src/program/index.ts'
import * as P from '../src/program/index.ts'
import { compilePlan } from './support/trainingCase.ts'
import { readFileSync, writeFileSync } from 'node:fs'
test('probe', () => {
  const docs = JSON.parse(readFileSync('/tmp/probe.json', 'utf8'))
  const out: unknown[] = []
  for (const doc of docs) {
    try {
      const c = compilePlan(doc)
      const program = lowerPlan(c.plan, c.model, { gradients: true })
      const f = verifyProgram(program).findings
      out.push({ doc, findings: f.length, first: f[0] })
    } catch (e) { out.push({ doc, error: String((e as Error).stack).slice(0, 600) }) }
  }
  writeFileSync('/tmp/probe.out.json', JSON.stringify(out, null, 1))
})
