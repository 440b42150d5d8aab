import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkImports } from './rooms.ts'

const root = join(import.meta.dirname, '..', '..')

function reasons(file: string, text: string): readonly string[] {
  return checkImports(file, text).map(({ line, specifier }) => `${line}: ${specifier}`)
}

describe('the house', () => {
  it('has only imports that its rooms allow', () => {
    const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `src/${name.replaceAll('\\', '/')}`)
      .sort()
    // Fewer would mean that the walk, not the code, is at fault.
    expect(files.length).toBeGreaterThan(100)
    const violations = files.flatMap((file) => checkImports(file, readFileSync(join(root, file), 'utf8')))
    expect(
      violations.map(({ file, line, specifier, reason }) => `${file}:${line} ${specifier}: ${reason}`),
    ).toEqual([])
  })
})

describe('the room rule', () => {
  it('lets a room import itself and the doors of rooms above it', () => {
    const text = [
      "import { a } from './a.ts'",
      "import type { b } from './deep/b.ts'",
      "import { internalError } from '../base/index.ts'",
      "export { Graph } from '../graph/index.ts'",
      "const models = await import('../models/index.ts')",
      "// import { x } from '../cli/index.ts'",
      "const text = `import { x } from '../cli/index.ts'`",
    ].join('\n')
    expect(checkImports('src/schedule/x.ts', text)).toEqual([])
  })

  it('finds every form of an import from below', () => {
    const text = [
      "import { a } from '../cli/index.ts'",
      "import type { b } from '../cli/index.ts'",
      "import '../cli/index.ts'",
      "export * from '../cli/index.ts'",
      "export type { c } from '../cli/index.ts'",
      "type D = import('../cli/index.ts').D",
      "const e = () => import('../cli/index.ts')",
      'const f = () => import(`../cli/index.ts`)',
    ]
    expect(reasons('src/schedule/x.ts', text.join('\n'))).toEqual(
      text.map((_, index) => `${index + 1}: ../cli/index.ts`),
    )
  })

  it.each([
    ['past the door', 'src/program/x.ts', '../graph/types.ts', /private/],
    ['past the door, from deeper', 'src/program/verify/x.ts', '../../graph/ops/index.ts', /private/],
    ['out of src', 'src/program/x.ts', '../../bench/engine.ts', /out of src/],
    ['what supports tests', 'src/program/x.ts', '../../test/support/graphs.ts', /only tests/],
    ['Node where a web page must run', 'src/simulate/x.ts', 'node:fs', /only data, engine, cli/],
    ['a package not listed', 'src/graph/x.ts', 'zod', /package zod/],
    ['a package below a scope', 'src/plan/x.ts', '@scope/name/deep', /package @scope\/name/],
    ['an absolute path', 'src/graph/x.ts', '/src/base/index.ts', /package/],
    ['from a folder that is no room', 'src/elsewhere/x.ts', '../base/index.ts', /no room/],
    ['from src itself', 'src/x.ts', './base/index.ts', /no room/],
    ['a test from below', 'src/graph/x.test.ts', '../program/index.ts', /below/],
    ['a test a package not listed', 'src/graph/x.test.ts', 'yaml', /package yaml/],
  ])('refuses %s', (_name, file, specifier, reason) => {
    const [violation, ...others] = checkImports(file, `import { x } from '${specifier}'`)
    expect(violation?.reason).toMatch(reason)
    expect(others).toEqual([])
  })

  it('refuses an import that it cannot read', () => {
    expect(checkImports('src/cli/x.ts', 'await import(name)')[0]?.reason).toMatch(/computed/)
  })

  it('lets tests past the doors above them, to Node and to what supports tests', () => {
    const text = ['../base/suggest.ts', '../../test/support/graphs.ts', 'node:fs', 'vitest', 'fast-check']
      .map((specifier) => `import '${specifier}'`)
      .join('\n')
    expect(checkImports('src/graph/x.test.ts', text)).toEqual([])
  })
})
