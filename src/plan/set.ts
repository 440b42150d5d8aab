import { parseDocument } from 'yaml'
import { expandAlias } from './aliases.ts'
import type { Locate } from './check.ts'
import { isMapping, nodesAt, ownProperty, type SchemaNode } from './describe.ts'
import { writeDocument } from './document.ts'
import { longLayout } from './layoutSection.ts'
import { readDocument } from './parse.ts'
import { PlanError } from './problems.ts'
import { planJsonSchema } from './schema.ts'
import { sourceOf } from './source.ts'
import type { PlanDocument } from './types.ts'

/** Longest override that is read, in characters. */
const maximumLength = 1 << 16
const maximumDepth = 8

interface Override {
  readonly text: string
  readonly path: readonly string[]
  readonly value: unknown
}

/**
 * The plan with some of its values replaced, as `--set` does: `mesh.pipeline=2`, `mesh.data=[3, 1]`, `lr=0.01`,
 * `clip=null`. Values are YAML; later ones win. The result is checked as a whole, like a plan that is read.
 *
 * Another name (`optimizer.name=sgd`, `schedule.name`, `learningRate.kind`) drops settings that it does not have and those
 * that were the old one's defaults.
 *
 * @throws PlanError (a MeshwrightError, code `PLAN_INVALID`)
 */
export function setPlan(plan: PlanDocument, overrides: readonly string[]): PlanDocument {
  if (overrides.length === 0) return plan
  const parsed = overrides.map(parseOverride)
  const document = structuredClone(writeDocument(plan))
  for (const override of parsed) apply(document, override)
  const before = sourceOf(plan)
  const locate: Locate = (path, what) => {
    const joined = path.join('.')
    const from = parsed.findLast((override) => {
      const set = override.path.join('.')
      return joined === set || joined.startsWith(`${set}.`) || set.startsWith(`${joined}.`)
    })
    return from === undefined ? before(path, what) : { file: `--set ${from.text}`, path: joined }
  }
  return readDocument(document, locate)
}

function parseOverride(text: string): Override {
  const shown = text.length > 60 ? `${text.slice(0, 57)}...` : text
  const fail = (message: string, hint: string): never => {
    throw new PlanError([{ code: 'PLAN_SET', message, at: { file: `--set ${shown}` }, hint }])
  }
  if (text.length > maximumLength)
    fail('the value is too long', `at most ${maximumLength} characters are read`)
  const equals = text.indexOf('=')
  const path = text.slice(0, Math.max(0, equals)).trim().split('.')
  if (equals < 0 || path.some((key) => key === '') || path.length > maximumDepth)
    fail('this sets nothing', 'write path=value, as in mesh.pipeline=2')
  const yaml = parseDocument(text.slice(equals + 1), {
    prettyErrors: false,
    version: '1.2',
    stringKeys: true,
    logLevel: 'error',
  })
  const [problem] = [...yaml.errors, ...yaml.warnings]
  if (problem !== undefined)
    fail(problem.message, 'the value is YAML: quote it if it is text with : or , or #')
  try {
    return { text: shown, path: expandAlias(path), value: yaml.toJS({ maxAliasCount: 0 }) as unknown }
  } catch {
    return fail('aliases have no place here', 'write the value out')
  }
}

/** Keys of which a mapping has one: setting one drops the others. */
const exclusive: readonly (readonly string[])[] = [
  ['model.name', 'model.config'],
  ['schedule.text', 'schedule.file', 'schedule.name'],
  ['batch.mbs', 'batch.microbatches'],
]

function apply(document: Record<string, unknown>, { path, value, text }: Override): void {
  const fail = (message: string, hint: string): never => {
    throw new PlanError([
      { code: 'PLAN_SET', message, at: { file: `--set ${text}`, path: path.join('.') }, hint },
    ])
  }
  const before = nodesAt(planJsonSchema() as SchemaNode, [path[0]!], document)
  if (path[0] === 'layout' && path.length > 1) document['layout'] = longLayout(document['layout'] ?? {})
  let at: unknown = document
  for (const [depth, key] of path.entries()) {
    const isLast = depth === path.length - 1
    if (Array.isArray(at)) {
      const index = Number(key)
      if (!/^[0-9]+$/.test(key) || index >= at.length)
        fail(
          `${path.slice(0, depth).join('.')} has ${at.length} elements, numbered from 0`,
          at.length === 0
            ? 'give the whole list'
            : `give a number from 0 to ${at.length - 1}, or the whole list`,
        )
      if (isLast) at[index] = value
      else at = at[index]
    } else if (isMapping(at)) {
      if (isLast) define(at, key, value)
      else if (/^[0-9]+$/.test(path[depth + 1]!) && ownProperty(at, key) === undefined)
        fail(
          `${path.slice(0, depth + 1).join('.')} is not set`,
          `give the whole list: ${path.slice(0, depth + 1).join('.')}=[...]`,
        )
      else at = innerMapping(at, key)
    } else
      fail(
        `${path.slice(0, depth).join('.')} has nothing inside`,
        `set it as a whole: ${path.slice(0, depth).join('.')}=...`,
      )
  }
  const group = path[0]!
  const mapping = ownProperty(document, group)
  if (!isMapping(mapping)) return
  const set = path.join('.')
  if (set === 'schedule.text' || set === 'schedule.file') document['schedule'] = { [path[1]!]: value }
  for (const keys of exclusive)
    if (keys.includes(set)) for (const other of keys) if (other !== set) remove(mapping, other.split('.')[1]!)
  if (['schedule.name', 'optimizer.name', 'learningRate.kind'].includes(set))
    keepChosen(document, group, before, mapping)
}

/** What is inside, made if it is not there; `model: gpt` is short for `model: {name: gpt}`. */
function innerMapping(at: Readonly<Record<string, unknown>>, key: string): unknown {
  const inner = ownProperty(at, key)
  if (inner !== undefined && typeof inner !== 'string') return inner
  const made = inner === undefined ? {} : { name: inner }
  define(at, key, made)
  return made
}

/**
 * After another name: what the new kind does not have goes, and so does what was only the old kind's default. Of an
 * unknown name nothing goes.
 */
function keepChosen(
  document: unknown,
  group: string,
  before: readonly SchemaNode[],
  mapping: Readonly<Record<string, unknown>>,
): void {
  const after = nodesAt(planJsonSchema() as SchemaNode, [group], document)
  if (after.length !== 1 || after[0] === before[0]) return
  const [old, present] = [before[0]?.properties, after[0]!.properties]
  for (const [key, value] of Object.entries(mapping)) {
    const known = ownProperty(present, key)
    if (known?.const !== undefined) continue
    if (known === undefined || ownProperty(old, key)?.default === value) remove(mapping, key)
  }
}

function remove(record: Readonly<Record<string, unknown>>, key: string): void {
  delete (record as Record<string, unknown>)[key]
}

function define(record: object, key: string, value: unknown): void {
  Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true })
}
