import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MeshwrightError } from '../base/index.ts'
import { readWholeFile } from './files.ts'

export interface DefaultText {
  readonly paths: readonly string[]
  readonly bytes: Uint8Array
  /** What the text is, for a person. */
  readonly description: string
}

/** Large declaration files of TypeScript, the best one first. */
const declarations = ['lib.dom.d.ts', 'typescript.d.ts']
const largestTextBytes = 2 ** 26

/**
 * A real text that needs no download: the declarations of the browser's interfaces in the TypeScript package, which
 * every checkout has; where that is not installed, the documentation and declarations of this package itself.
 *
 * @param packageRoot the folder of this package's package.json
 */
export function findDefaultText(packageRoot: string = ownRoot()): DefaultText {
  return typescriptText(packageRoot) ?? ownText(packageRoot)
}

/** Both `src/data/` and `dist/data/` lie two folders below the root. */
function ownRoot(): string {
  return join(dirname(fileURLToPath(import.meta.url)), '..', '..')
}

function typescriptText(packageRoot: string): DefaultText | undefined {
  let manifest: string
  try {
    manifest = createRequire(join(packageRoot, 'package.json')).resolve('typescript/package.json')
  } catch {
    return undefined
  }
  for (const name of declarations) {
    const path = join(dirname(manifest), 'lib', name)
    if (!existsSync(path)) continue
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version?: unknown }
    return {
      paths: [path],
      bytes: readWholeFile(path, 'default text', largestTextBytes),
      description: `${name} of TypeScript ${String(version)}`,
    }
  }
  return undefined
}

function ownText(packageRoot: string): DefaultText {
  const paths = [
    ...[join(packageRoot, 'README.md')].filter((path) => existsSync(path)),
    ...filesBelow(join(packageRoot, 'docs'), '.md'),
    ...filesBelow(join(packageRoot, 'dist'), '.d.ts'),
  ]
  if (paths.length === 0) {
    throw new MeshwrightError('DATA_MISSING', `no default text was found in ${packageRoot}`, {
      at: { file: packageRoot },
      hint: 'give a text with --data FILE',
    })
  }
  const parts = paths.map((path) => readWholeFile(path, 'default text', largestTextBytes))
  return {
    paths,
    bytes: Buffer.concat(parts),
    description: `the documentation and declarations of this package (${paths.length} files from ${relative(packageRoot, paths[0]!)} on)`,
  }
}

/** In an order that does not depend on the file system. */
function filesBelow(folder: string, suffix: string): readonly string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(suffix))
    .sort()
    .map((name) => join(folder, name))
}
