import type * as z from 'zod'
import { didYouMean, type SourcePosition } from '../base/index.ts'
import { describeNodes, keysAt, nodesAt, ownProperty, type Path, type SchemaNode } from './describe.ts'
import type { PlanProblem } from './problems.ts'
import { planJsonSchema, planSchema } from './schema.ts'

/** Where the value at a path stands, or its key. */
export type Locate = (path: Path, what: 'key' | 'value') => SourcePosition

/** Most problems that are reported of one plan. */
const maximumProblems = 50

/**
 * Checks a document against the schema.
 *
 * @returns the validated document (defaults of the schema filled in), or all its problems
 */
export function checkDocument(
  document: unknown,
  locate: Locate,
): { readonly input: unknown } | { readonly problems: readonly PlanProblem[] } {
  const result = planSchema.safeParse(document)
  if (result.success) return { input: result.data }
  const schema = planJsonSchema() as SchemaNode
  const problems = result.error.issues.flatMap((issue) => explain(issue, [], document, schema, locate))
  const seen = new Set<string>()
  return {
    problems: problems
      .filter(({ code, at, message }) => {
        // A number can be no whole number and out of range at once: one message says what would be right.
        const key = `${code} ${at.path} ${code === 'PLAN_UNKNOWN_KEY' ? message : ''}`
        return !seen.has(key) && seen.add(key)
      })
      .slice(0, maximumProblems),
  }
}

function explain(
  issue: z.core.$ZodIssue,
  base: Path,
  document: unknown,
  schema: SchemaNode,
  locate: Locate,
): PlanProblem[] {
  const path = [...base, ...issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key))]
  if (issue.code === 'unrecognized_keys') {
    const known = keysAt(schema, path, document)
    const [only, ...more] = Object.keys(valueAt(document, path) ?? {})
    // The key of another variant, by itself: that one was meant, so it is the value that is wrong.
    if (only !== undefined && more.length === 0 && known.includes(only))
      return [explainValue([...path, only], document, schema, locate)]
    return issue.keys.slice(0, maximumProblems).map((key) => ({
      code: 'PLAN_UNKNOWN_KEY',
      message: `unknown key "${key.slice(0, 60)}"`,
      at: locate([...path, key], 'key'),
      hint:
        (known.includes(key) ? 'it does not go with the others' : didYouMean(key, known)) ??
        (known.length === 0 ? 'no key can stand here' : `keys are ${known.join(', ')}`),
    }))
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const branch = closest(issue.errors)
    if (branch !== undefined) return branch.flatMap((inner) => explain(inner, path, document, schema, locate))
  }
  return [explainValue(path, document, schema, locate)]
}

/** The variant that was meant: one of the right type, with the fewest problems. */
function closest(
  branches: readonly (readonly z.core.$ZodIssue[])[],
): readonly z.core.$ZodIssue[] | undefined {
  const ofType = branches.filter(
    (issues) =>
      !issues.some(
        ({ code, path }) =>
          path.length === 0 &&
          (code === 'invalid_type' || code === 'invalid_value' || code === 'invalid_format'),
      ),
  )
  return ofType.toSorted((a, b) => weight(a) - weight(b))[0]
}

function weight(issues: readonly z.core.$ZodIssue[]): number {
  return issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0)
}

function explainValue(path: Path, document: unknown, schema: SchemaNode, locate: Locate): PlanProblem {
  const value = valueAt(document, path)
  if (path.length === 0)
    return {
      code: 'PLAN_VALUE',
      message: value === null ? 'the plan is empty' : `expected a mapping, got ${showValue(value)}`,
      at: locate(path, 'value'),
      hint: 'a plan starts with "meshwright: 1"',
    }
  // What a mapping is called decides which of several it is: here every one of them is a candidate.
  const nodes = nodesAt(schema, path, undefined)
  const names = nodes.flatMap((node) => [
    ...(node.enum ?? []),
    ...(node.const === undefined ? [] : [node.const]),
  ])
  const texts = names.filter((candidate) => typeof candidate === 'string')
  const expected =
    texts.length > 1 && nodes.every((node) => node.const !== undefined)
      ? `one of ${texts.join(', ')}`
      : describeNodes(nodes)
  if (value === undefined)
    return {
      code: 'PLAN_MISSING',
      message: `missing: expected ${expected}`,
      at: locate(path, 'key'),
      ...(path[0] === 'meshwright' ? { hint: 'a plan starts with "meshwright: 1"' } : {}),
    }
  const near = typeof value === 'string' ? didYouMean(value, texts) : undefined
  return {
    code: 'PLAN_VALUE',
    message: `expected ${expected}, got ${showValue(value)}`,
    at: locate(path, 'value'),
    ...(near === undefined ? {} : { hint: near }),
  }
}

function valueAt(document: unknown, path: Path): unknown {
  let at = document
  for (const key of path) {
    if (typeof at !== 'object' || at === null) return undefined
    at = ownProperty(at as Record<string, unknown>, String(key))
  }
  return at
}

function showValue(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return String(value)
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
  return Array.isArray(value) ? `a list of ${value.length}` : 'a mapping'
}
