import { existsSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { pathToFileURL } from 'node:url'
import { internalError } from '../base/index.ts'
import type { ScheduleGenerator } from '../schedule/index.ts'
import { nodeStrip } from './typeScriptLoader.ts'
import { messageOf, moduleError, userGenerator } from './userGenerator.ts'

/**
 * A generator from a module of the user's own, which is run: its default export, a `ScheduleGenerator` or a function
 * (graph, parameters, costs) => Schedule. Each schedule that it makes is checked as a built-in one is.
 *
 * @throws MeshwrightError `SCHEDULE_MODULE` for a module that cannot be loaded or exports something else, and later for
 *   a schedule that is none or not valid
 */
export async function loadScheduleModule(path: string): Promise<ScheduleGenerator> {
  if (/\.m?ts$/.test(path)) prepareTypeScript(path)
  let module: { readonly default?: unknown }
  try {
    module = (await import(pathToFileURL(path).href)) as { readonly default?: unknown }
  } catch (cause) {
    throw moduleError(
      path,
      `the module cannot be loaded: ${messageOf(cause)}`,
      'run it with node to see more',
      cause,
    )
  }
  return userGenerator(module.default, path)
}

let prepared = false

/** Makes Node take types out of TypeScript, if it does not by itself. */
function prepareTypeScript(path: string): void {
  const { typescript: runs } = process.features as { readonly typescript?: unknown }
  if (prepared || (typeof runs === 'string' && runs !== '')) return
  const typescript = nodeStrip() === undefined ? findTypeScript(path) : null
  if (typescript === undefined)
    throw moduleError(
      path,
      `Node ${process.versions.node} does not run TypeScript`,
      'take Node 22.18 or later, or npm install typescript beside the module, or write it as .mjs',
    )
  register(loaderFile(), { data: { typescript } })
  prepared = true
}

/** The user's own `typescript`, found from the module as the module itself would find it; else that of Meshwright. */
function findTypeScript(path: string): string | undefined {
  for (const from of [path, import.meta.url])
    try {
      return createRequire(from).resolve('typescript')
    } catch {}
  return undefined
}

/** Hooks run in a thread of Node's: from sources, they are taken from the build beside them. */
function loaderFile(): URL {
  const here = import.meta.url
  if (!here.endsWith('.ts')) return new URL('./typeScriptLoader.js', here)
  const built = new URL('../../dist/cli/typeScriptLoader.js', here)
  if (!existsSync(built)) throw internalError('module hooks run from the build: npm run build')
  return built
}
