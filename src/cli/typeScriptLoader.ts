/**
 * Module hooks, for a Node that does not run TypeScript by itself (before 22.18): types are taken out of `.ts` and
 * `.mts` files as they are loaded. Node runs this in a thread of its own.
 */
import { readFile } from 'node:fs/promises'
import * as nodeModule from 'node:module'
import { fileURLToPath } from 'node:url'

type Strip = (source: string) => string

let strip: Strip | undefined

/** What `register` hands over: where the `typescript` package is, if Node cannot strip types itself. */
export function initialize(data: { readonly typescript: string | null }): void {
  strip = nodeStrip() ?? (data.typescript === null ? undefined : packageStrip(data.typescript))
}

export async function load(
  url: string,
  context: object,
  next: (url: string, context: object) => unknown,
): Promise<unknown> {
  if (!/^file:[^?#]*\.m?ts(?:[?#]|$)/.test(url) || strip === undefined) return next(url, context)
  const source = await readFile(fileURLToPath(url), 'utf8')
  return { format: 'module', shortCircuit: true, source: strip(source) }
}

/** Node's own, since 22.13. */
export function nodeStrip(): Strip | undefined {
  const { stripTypeScriptTypes } = nodeModule as { stripTypeScriptTypes?: Strip }
  return stripTypeScriptTypes
}

function packageStrip(path: string): Strip {
  const typescript = nodeModule.createRequire(path)(path) as {
    readonly transpile: (source: string, options: object) => string
    readonly ScriptTarget: { readonly ES2023: number }
    readonly ModuleKind: { readonly ESNext: number }
  }
  const options = {
    target: typescript.ScriptTarget.ES2023,
    module: typescript.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  }
  return (source) => typescript.transpile(source, options)
}
