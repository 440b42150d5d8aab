import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { root } from './documents.ts'

/** Codes are put together here: a prefix, and what the first argument of these calls says. */
const composed: Readonly<Record<string, { readonly call: string; readonly files: RegExp }>> = {
  SAFETENSORS_: { call: 'refuse', files: /^data\/safetensors\// },
  ENGINE_STATE_: { call: 'stateError', files: /^engine\/state\.ts$/ },
}

/** Literals in capitals that are no codes of ours: Node's, and actions of PyTorch's schedules. */
const foreign = /^((ERR_)?MODULE_NOT_FOUND|(SEND|RECV)_[FB]|REDUCE_GRAD)$/

const code = /^[A-Z][A-Z\d]*(_[A-Z\d]+)+$/

export interface ErrorCodes {
  /** Every code, with the files below src/ that give it. */
  readonly codes: ReadonlyMap<string, ReadonlySet<string>>
  /** Prefixes of codes that are put together and that `composed` does not know. */
  readonly unknownPrefixes: readonly string[]
}

/** The codes of all errors and findings in src/, from the sources' syntax trees. */
export function findErrorCodes(): ErrorCodes {
  const codes = new Map<string, Set<string>>()
  const unknownPrefixes: string[] = []
  const src = join(root, 'src')
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' }).sort()) {
    const file = name.replaceAll('\\', '/')
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue
    const add = (found: string): void => {
      if (!foreign.test(found)) codes.set(found, (codes.get(found) ?? new Set()).add(file))
    }
    // Second halves of codes that are put together.
    const halves = new Set<ts.Node>()
    const visit = (node: ts.Node): void => {
      if (ts.isStringLiteral(node) && code.test(node.text) && !halves.has(node)) add(node.text)
      if (ts.isPropertyAssignment(node) && node.name.getText() === 'code')
        for (const { text } of literalsOf(node.initializer)) if (/^[A-Z_]{4,}$/.test(text)) add(text)
      if (ts.isTemplateExpression(node)) {
        const prefix = node.head.text
        if (/^[A-Z]+_([A-Z]+_)*$/.test(prefix) && composed[prefix] === undefined)
          unknownPrefixes.push(`${file}: ${prefix}`)
      }
      if (ts.isCallExpression(node))
        for (const [prefix, { call, files }] of Object.entries(composed)) {
          const isCall = files.test(file) && calleeName(node.expression) === call
          const first = node.arguments[0]
          if (isCall && first !== undefined)
            for (const literal of literalsOf(first)) {
              halves.add(literal)
              add(prefix + literal.text)
            }
        }
      ts.forEachChild(node, visit)
    }
    const text = readFileSync(join(src, name), 'utf8')
    // Most files have no code, and need no tree.
    if (/'[A-Z_\d]{4,}'|`[A-Z]+_\$/.test(text))
      visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true))
  }
  return { codes, unknownPrefixes }
}

/** `refuse`, of `refuse(…)` as of `refuseIn(file)(…)`. */
function calleeName(callee: ts.Expression): string {
  if (ts.isCallExpression(callee)) return calleeName(callee.expression).replace(/In$/, '')
  return callee.getText()
}

/** The literals that an expression can be. */
function literalsOf(node: ts.Expression): ts.StringLiteral[] {
  if (ts.isStringLiteral(node)) return [node]
  if (ts.isConditionalExpression(node)) return [...literalsOf(node.whenTrue), ...literalsOf(node.whenFalse)]
  return []
}
