import { expandAliases } from './aliases.ts'
import { checkDocument, type Locate } from './check.ts'
import { fillDocument } from './document.ts'
import { PlanError } from './problems.ts'
import { rememberSource } from './source.ts'
import type { PlanDocument } from './types.ts'
import { readYaml } from './yaml.ts'

/**
 * Reads a plan, YAML 1.2 or JSON. Strict: an unknown or repeated key, a wrong type, a number out of range are errors,
 * and all of them are reported at once, each with file, line, column and path. Short names (`pp`, `dp`, `gbs`, `mbs`,
 * `lr`) are accepted.
 *
 * @throws PlanError (a MeshwrightError, code `PLAN_INVALID`)
 */
export function parsePlan(text: string, options: { readonly file?: string } = {}): PlanDocument {
  const { file } = options
  const { document, locate } = readYaml(text, file)
  return readDocument(document, locate, file)
}

/** A plan from a document of plain data. */
export function readDocument(document: unknown, locate: Locate, file?: string): PlanDocument {
  const expanded = expandAliases(document, locate)
  const problems = [...expanded.problems]
  const locateExpanded: Locate = (path, what) => locate(expanded.origin(path), what)
  const checked = checkDocument(expanded.document, locateExpanded)
  if ('problems' in checked) throw new PlanError([...problems, ...checked.problems], file)
  const plan = fillDocument(checked.input, locateExpanded, problems)
  if (problems.length > 0) throw new PlanError(problems, file)
  rememberSource(plan, locateExpanded)
  return plan
}
