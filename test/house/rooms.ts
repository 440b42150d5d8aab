import ts from 'typescript'

/** Rooms of src/, each importing only from those before it. */
export const rooms: readonly string[] = [
  'base',
  'graph',
  'models',
  'optimizers',
  'cluster',
  'layout',
  'schedule',
  'plan',
  'launch',
  'primitives',
  'program',
  'trace',
  'scene',
  'simulate',
  'data',
  'engine',
  'search',
  'diagnose',
  'cli',
]

/** Rooms that may import `node:` modules. The others also run in a web page. */
const nodeRooms: readonly string[] = ['data', 'engine', 'cli']

/** Every package that a room imports, and why. A new dependency is a line here. */
const packages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  plan: {
    yaml: 'reads YAML and JSON with the position of every node',
    zod: 'checks documents and writes their JSON Schema',
  },
  data: { '@huggingface/tokenizers': 'reads tokenizer.json' },
  engine: {
    'onnxruntime-node': 'runs tasks',
    'onnx-buf': 'the ONNX schema',
    '@bufbuild/protobuf': 'encodes ONNX models',
  },
  cli: {
    commander: 'parses the command line',
    picocolors: 'colours a terminal',
    'onnxruntime-node': 'doctor asks for its version',
  },
}

/** Packages that only tests import. */
const testPackages: readonly string[] = ['vitest', 'fast-check', 'typescript']

/** Files that load a module of the user's own, by a name that only the user knows. */
const loadsUserModules: readonly string[] = ['src/cli/scheduleModule.ts']

export interface Violation {
  readonly file: string
  readonly line: number
  readonly specifier: string
  readonly reason: string
}

interface Import {
  readonly specifier: string | undefined
  readonly line: number
}

/**
 * What is wrong with the imports of one file.
 *
 * @param file path from the root of the repository, with forward slashes, `src/graph/types.ts`
 */
export function checkImports(file: string, text: string): readonly Violation[] {
  return importsOf(text).flatMap(({ specifier, line }) => {
    if (specifier === undefined && loadsUserModules.includes(file)) return []
    const reason =
      specifier === undefined ? 'a computed import cannot be checked' : whyRefused(file, specifier)
    return reason === undefined ? [] : [{ file, line, specifier: specifier ?? '', reason }]
  })
}

function whyRefused(file: string, specifier: string): string | undefined {
  const room = roomOf(file)
  const test = file.endsWith('.test.ts')
  if (room === undefined || !rooms.includes(room))
    return `the file is in no room: rooms of src/ are ${rooms.join(', ')}`
  if (specifier.startsWith('node:'))
    return test || nodeRooms.includes(room) ? undefined : `only ${nodeRooms.join(', ')} import node: modules`
  if (!specifier.startsWith('.')) return whyPackageRefused(room, test, packageOf(specifier))

  const target = resolve(file, specifier)
  if (target.startsWith('test/support/')) return test ? undefined : 'only tests import what supports them'
  const targetRoom = roomOf(target)
  if (targetRoom === undefined) return 'it leads out of src/'
  if (targetRoom === room) return undefined
  if (rooms.indexOf(targetRoom) > rooms.indexOf(room))
    return `${targetRoom} is below ${room}: a room imports only from those above it`
  if (!test && target !== `src/${targetRoom}/index.ts`)
    return `what the index.ts of ${targetRoom} does not export is private to that room`
  return undefined
}

function whyPackageRefused(room: string, test: boolean, name: string): string | undefined {
  if (packages[room]?.[name] !== undefined || (test && testPackages.includes(name))) return undefined
  return `${room} does not list the package ${name} among those it imports`
}

/** Folder below src/; undefined for what lies elsewhere, or in src/ itself. */
function roomOf(path: string): string | undefined {
  return /^src\/([^/]+)\/./.exec(path)?.[1]
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

function resolve(file: string, specifier: string): string {
  const parts = file.split('/').slice(0, -1)
  for (const part of specifier.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}

/** Imports and exports from elsewhere, dynamic ones and those of types included. */
function importsOf(text: string): readonly Import[] {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.ES2023)
  const imports: Import[] = []
  const add = (node: ts.Node, specifier: ts.Node | undefined): void => {
    imports.push({
      specifier: specifier !== undefined && ts.isStringLiteralLike(specifier) ? specifier.text : undefined,
      line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1,
    })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node, node.moduleSpecifier)
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined)
      add(node, node.moduleSpecifier)
    else if (ts.isImportTypeNode(node))
      add(node, ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined)
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      add(node, node.arguments[0])
    ts.forEachChild(node, visit)
  }
  visit(source)
  return imports
}
