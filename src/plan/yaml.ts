import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml'
import type { SourcePosition } from '../base/index.ts'
import type { Locate } from './check.ts'
import type { Path } from './describe.ts'
import { PlanError, type PlanProblem } from './problems.ts'

/** Longest plan that is read, in characters. */
const maximumLength = 1 << 22
/** What aliases (`*x`) may repeat; a plan needs none. */
const maximumAliases = 64
/** Most complaints about the form of one text. */
const maximumProblems = 20

/**
 * Reads YAML 1.2 or JSON to plain data. Bounded in length and in what aliases may blow up.
 *
 * @throws PlanError whose problems are `PLAN_SYNTAX` or `PLAN_DUPLICATE_KEY`
 */
export function readYaml(text: string, file: string | undefined): { document: unknown; locate: Locate } {
  const place: SourcePosition = file === undefined ? {} : { file }
  const fail = (message: string, hint: string): never => {
    throw new PlanError([{ code: 'PLAN_SYNTAX', message, at: place, hint }])
  }
  if (text.length > maximumLength)
    fail(`a plan of ${text.length} characters is too long`, `at most ${maximumLength} characters are read`)
  const lines = new LineCounter()
  const at = (offset: number): SourcePosition => {
    const { line, col } = lines.linePos(offset)
    return { ...place, line, column: col }
  }
  const yaml = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    version: '1.2',
    stringKeys: true,
    // The library's own check takes time quadratic in the number of keys.
    uniqueKeys: false,
    merge: false,
    logLevel: 'error',
  })
  const syntax = [...yaml.errors, ...yaml.warnings]
  // The library reports a full stack as an error at the place it had come to, and then much else.
  if (syntax.some(({ message }) => message.includes('call stack')))
    fail('the plan is nested too deeply', 'a plan has a few levels')
  const malformed = syntax.map(
    ({ message, pos }): PlanProblem => ({
      code: 'PLAN_SYNTAX',
      message: message.replace(/; please use .*$/, ''),
      at: at(pos[0]),
    }),
  )
  const problems = malformed.length > 0 ? onePerLine(malformed) : findLoose(yaml, at)
  if (problems.length > 0) throw new PlanError(problems.slice(0, maximumProblems), file)
  let document: unknown
  try {
    document = yaml.toJS({ maxAliasCount: maximumAliases })
  } catch (error) {
    const message = error instanceof ReferenceError ? error.message : 'the plan is nested too deeply'
    fail(message, 'write values out where they are needed')
  }
  return { document, locate: (path, what) => locateNode(yaml, path, what, at, place) }
}

/** The first complaint about each line: the others mostly follow from it. */
function onePerLine(problems: readonly PlanProblem[]): PlanProblem[] {
  const lines = new Set<number | undefined>()
  return problems.filter(({ at }) => !lines.has(at.line) && lines.add(at.line))
}

/** What the library does not place, or takes too long to find: repeated keys, and aliases of nothing. */
function findLoose(yaml: Document.Parsed, at: (offset: number) => SourcePosition): PlanProblem[] {
  const problems: PlanProblem[] = []
  const anchors = new Set<string>()
  const anchor = (node: { readonly anchor?: string | undefined }): void => {
    if (node.anchor !== undefined) anchors.add(node.anchor)
  }
  visit(yaml, {
    Map(_, map) {
      anchor(map)
      const seen = new Set<unknown>()
      for (const { key } of map.items) {
        if (!isScalar(key)) continue
        if (seen.has(key.value))
          problems.push({
            code: 'PLAN_DUPLICATE_KEY',
            message: `key "${String(key.value).slice(0, 60)}" is given twice`,
            at: at(key.range?.[0] ?? 0),
          })
        seen.add(key.value)
      }
    },
    Seq: (_, seq) => anchor(seq),
    Scalar: (_, scalar) => anchor(scalar),
    Alias(_, alias) {
      if (!anchors.has(alias.source))
        problems.push({
          code: 'PLAN_SYNTAX',
          message: `*${alias.source.slice(0, 60)} stands for nothing before it`,
          at: at(alias.range?.[0] ?? 0),
        })
    },
  })
  return problems
}

/** The position of the deepest node on the way to `path` that the text has. */
function locateNode(
  yaml: Document.Parsed,
  path: Path,
  what: 'key' | 'value',
  at: (offset: number) => SourcePosition,
  place: SourcePosition,
): SourcePosition {
  let node: Node | null = yaml.contents
  let offset = node?.range?.[0]
  for (const [depth, key] of path.entries()) {
    if (isAlias(node)) node = node.resolve(yaml) ?? null
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && item.key.value === key)
      if (pair === undefined) break
      const keyNode = pair.key as Node
      node = pair.value as Node | null
      const wantsKey = what === 'key' && depth === path.length - 1
      // A value that was left empty stands behind its key.
      offset = (wantsKey || node === null ? keyNode : node).range?.[0] ?? offset
    } else if (isSeq(node)) {
      const item = node.items[Number(key)] as Node | undefined
      if (item === undefined) break
      node = item
      offset = node.range?.[0] ?? offset
    } else break
  }
  return { ...(offset === undefined ? place : at(offset)), path: path.join('.') }
}
