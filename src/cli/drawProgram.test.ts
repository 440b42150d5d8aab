import { expect, it } from 'vitest'
import { tinyPlan } from '../../test/support/programs.ts'
import { parseProgram } from '../program/index.ts'
import { drawProgram } from './drawProgram.ts'

it('draws an action in pieces as one bar, as long as the action', () => {
  const { plan } = tinyPlan({ stages: 1, microbatches: 2 })
  const piece = (name: string, columns: number): string => `task ${name}: graph
  read x
  write y
  graph 1
  input x activation %0: f64[${columns}, 3]
  %1: f64[${columns}] = reduceSum(%0) dims=[1] keepDims=false
  output y %1
`
  const program = parseProgram(`program 1
work gradient: 1 stages, 2 microbatches
channel slots 1
mesh pipeline=0: data=1
stream compute: compute
stream reduce: network
group data: data
${[1, 3, 7].map((columns) => piece(`p${columns}`, columns)).join('\n')}
role pipeline=0
  ${[1, 3, 7].map((columns) => `buffer x${columns}: f64[${columns}, 3]\n  buffer y${columns}: f64[${columns}]`).join('\n  ')}
  compute run p1 x1 -> y1 for F stage 0 m0
  reduce all-reduce #1 sum y1 over data
  compute run p3 x3 -> y3 for F stage 0 m0
  reduce all-reduce #2 sum y3 over data
  compute run p7 x7 -> y7 for F stage 0 m0
  compute run p1 x1 -> y1 for B stage 0 m0
  compute run p7 x7 -> y7 for B stage 0 m0
  compute run p1 x1 -> y1 for F stage 0 m1
`)
  const lines = drawProgram(plan, program, 80)
  expect(lines.map((line) => line.replace(/^.*\)/, '').trim())[1]).toBe('F0 B0--- F1')
})
