import { describe, expect, it } from 'vitest'
import { problemsOf, shown } from '../../test/support/planProblems.ts'
import { parsePlan, planPosition } from './index.ts'

describe('parsePlan as a reader of text', () => {
  it('reports all problems at once, each with its place', () => {
    const text = 'meshwright: 1\nmesh:\n  pipeline: 0\n  date: 1\nclip: -1\n'
    expect(shown(text)).toEqual([
      'PLAN_VALUE 3:13 mesh.pipeline: expected a whole number from 1 to 4096, got 0',
      'PLAN_UNKNOWN_KEY 4:3 mesh.date: unknown key "date"; did you mean "data"?',
      'PLAN_VALUE 5:7 clip: expected a number above 0, or null, got -1',
    ])
    expect(() => parsePlan(text, { file: 'plan.yaml' })).toThrow(
      [
        '3 problems in the plan',
        '  plan.yaml:3:13 mesh.pipeline: expected a whole number from 1 to 4096, got 0',
        '  plan.yaml:4:3 mesh.date: unknown key "date"; did you mean "data"?',
        '  plan.yaml:5:7 clip: expected a number above 0, or null, got -1',
      ].join('\n'),
    )
  })

  it.each([
    ['mesh: {pipeline: 2', '2:19'],
    ['\tmesh: 1', '2:1'],
    ['mesh: 1\n  data: 2', '2:7'],
    ['mesh: b: c', '2:7'],
    ['--- 1\n--- 2', '2:1'],
    ['seed: *nowhere', '2:7'],
    ['seed: !custom 3', '2:7'],
    ['? [a]\n: 1', '2:3'],
  ])('refuses malformed %j', (text, place) => {
    const problems = problemsOf(`meshwright: 1\n${text}`)
    expect(problems.map(({ code, at }) => `${code} ${at.file}:${at.line}:${at.column}`)).toContain(
      `PLAN_SYNTAX plan.yaml:${place}`,
    )
  })

  it('refuses repeated keys and merge keys', () => {
    expect(shown('meshwright: 1\nmesh:\n  data: 1\n  data: 2')).toEqual([
      'PLAN_DUPLICATE_KEY 4:3 undefined: key "data" is given twice',
    ])
    expect(shown('meshwright: 1\nmesh: { <<: { data: 1 } }')[0]).toContain('unknown key "<<"')
  })

  it('follows a few aliases and stops where they blow up', () => {
    expect(parsePlan('meshwright: 1\nsequence: &n 16\nbatch: { samples: *n }').batch.samples).toBe(16)
    expect(shown('meshwright: 1\nmesh: &m { pipeline: 0 }\nbatch: *m')).toContain(
      'PLAN_VALUE 2:22 mesh.pipeline: expected a whole number from 1 to 4096, got 0',
    )
    const names = 'abcdefghij'
    const bomb = [...names].map((name, index) =>
      index === 0 ? 'a: &a [1, 1, 1, 1]' : `${name}: &${name} [${Array(9).fill(`*${names[index - 1]}`)}]`,
    )
    expect(problemsOf(bomb.join('\n'))).toMatchObject([{ code: 'PLAN_SYNTAX' }])
  })

  it('bounds what it reads', () => {
    expect(problemsOf(`meshwright: 1\nmodel: ${'x'.repeat(2 ** 22)}`)[0]!.message).toContain('too long')
    expect(problemsOf('['.repeat(50_000))).toMatchObject([{ message: 'the plan is nested too deeply' }])
    const many = Array.from({ length: 20_000 }, (_, key) => `k${key}: 1`).join('\n')
    expect(problemsOf(many).length).toBeLessThanOrEqual(50)
    expect(problemsOf('\u0000\u0001\u0002\uFFFD')).toHaveLength(1)
  })

  it('remembers where values stood', () => {
    const text = 'meshwright: 1\nmesh:\n  dp: [2, 4]\n'
    const read = parsePlan(text, { file: 'p.yaml' })
    expect(planPosition(read, ['mesh', 'data', 1])).toEqual({
      file: 'p.yaml',
      line: 3,
      column: 11,
      path: 'mesh.dp.1',
    })
    expect(planPosition({ ...read }, ['mesh'])).toEqual({ path: 'mesh' })
  })
})
