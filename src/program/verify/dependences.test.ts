import { expect, it } from 'vitest'
import { parseProgram } from '../text/parse.ts'
import { memoryEdges } from './dependences.ts'
import { RoleView } from './roleView.ts'

it('orders values of other shapes in one slot by the elements they share', () => {
  const program = parseProgram(`program 1
work infer: 2 stages, 1 microbatches
channel slots 1
mesh pipeline=0..1: data=1
stream load: host
stream net: network
role pipeline=0
  buffer a: f64[2, 3]
  buffer b: f64[6]
  load move in x -> a
  net send #1 a{1:2} to pipeline+1 ; free a
  net recv #2 b{4:6} from pipeline+1
  net recv #3 b{0:2} from pipeline+1
`)
  const [role] = program.roles
  const { from, to } = memoryEdges(new RoleView(0, role!, [0]))
  const edges = [...from].map((earlier, index) => [earlier, to[index]])
  // Row 1 of a is elements 3 to 6: only the first receive meets it. The free is instruction 2.
  expect(edges).toContainEqual([1, 3])
  expect(edges).not.toContainEqual([1, 4])
  expect(edges).toContainEqual([0, 4])
})
