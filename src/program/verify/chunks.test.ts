import { expect, it } from 'vitest'
import { codes } from '../../../test/support/findings.ts'
import { placesOf, tinyProgram, withRole } from '../../../test/support/programs.ts'
import { type Edit, edited } from '../../../test/support/programText.ts'
import type { Program } from '../types.ts'
import { verifyProgram } from './index.ts'
import { formatFinding } from './report.ts'

/** Three stages on one rank, which keeps the tied table in the first of them. */
const chunked = tinyProgram(
  {
    stages: 1,
    layers: 4,
    tied: true,
    microbatches: 2,
    schedule: { name: 'looped-bfs', chunks: 4 },
    more: { recompute: 'full' },
  },
  { gradients: true },
)

it('what lowering makes for several stages on one rank is accepted', () => {
  expect(codes(chunked)).toEqual([])
  // The two stages in the middle share their tasks.
  expect(chunked.tasks.map(({ name }) => name).filter((name) => /^B\d/.test(name))).toEqual([
    'B3',
    'B2',
    'B0',
  ])
})

const cases: readonly (readonly [string, string, readonly Edit[]])[] = [
  [
    'the parameters of another stage of the rank',
    'BINDING_BUFFER',
    [[/run F1 x1\[0\] w2/, 'run F1 x1[0] w1']],
  ],
  [
    'the gradients of another stage of the rank',
    'BINDING_BUFFER',
    [[/g2 for B stage 2 m0/, 'g1 for B stage 2 m0']],
  ],
  [
    'recomputation for another stage',
    'BINDING_BUFFER',
    [[/r2\.0\.\.4\[0\](.* for R stage 2 m0)/, 'r1.0..4[0]$1']],
  ],
  [
    'recomputation a second time',
    'ACTION_REPEATED',
    [[/^(.* run R.* for R stage 2 m)0(.*)$/m, '$10$2\n$10$2']],
  ],
]
it.each(cases)('%s is refused', (_, code, edits) => {
  expect(codes(edited(chunked, ...edits))).toContain(code)
})

it('a rank with two copies of a tensor is refused', () => {
  const program = withRole(chunked, 0, (role) => ({
    ...role,
    buffers: role.buffers.map((buffer) =>
      /^[wgmv]1$/.test(buffer.name)
        ? {
            ...buffer,
            pack: buffer.pack!.map((entry, index) =>
              index === 0 ? { ...entry, name: entry.name.replace('h.1', 'h.0') } : entry,
            ),
          }
        : buffer,
    ),
  }))
  const { findings } = verifyProgram(program)
  expect(findings.find(({ code }) => code === 'STATE_OWNER')?.message).toMatch(/several copies of .*h\.0/)
})

it('a task that leaves a gradient out is refused', () => {
  const program: Program = {
    ...chunked,
    tasks: chunked.tasks.map((task) =>
      task.kind === 'graph' && task.name === 'B0'
        ? {
            ...task,
            writes: task.writes.map((port) =>
              port.kind === 'pack' ? { ...port, rows: port.rows.slice(1) } : port,
            ),
          }
        : task,
    ),
  }
  expect(codes(program)).toContain('BINDING_TENSOR')
})

it('a finding shows which stage an action is of', () => {
  const [first] = placesOf(
    chunked.roles[0]!,
    (instruction) =>
      instruction.kind === 'run' && chunked.roles[0]!.actions[instruction.action ?? -1]?.stage === 1,
  )
  const lines = formatFinding(chunked, {
    code: 'X',
    message: 'x',
    fix: 'y',
    ranks: [0],
    places: [{ role: 0, instruction: first! }],
  })
  expect(lines.join('\n')).toContain('0F1 [1F0] 1F1')
})
