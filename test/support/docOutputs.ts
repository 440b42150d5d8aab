import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Fence, root, shellWords } from './documents.ts'

/**
 * Files that a document shows: fences of YAML or text whose first line is a comment with a file name, as `# first.yaml`;
 * and of JSON, which has no comments, with the name behind the language: `json costs.json`.
 *
 * @returns contents by file name
 */
export function namedFiles(fences: readonly Fence[]): Map<string, string> {
  const files = new Map<string, string>()
  for (const { language, lines } of fences) {
    const isFile = language === 'yaml' || language === 'text'
    const name = isFile ? /^# ([\w-]+\.(?:yaml|txt))$/.exec(lines[0] ?? '')?.[1] : undefined
    const json = /^json ([\w-]+\.json)$/.exec(language)?.[1]
    const file = name ?? json
    if (file !== undefined) files.set(file, `${lines.join('\n')}\n`)
  }
  return files
}

/** A folder with these files in it, gone when `use` is done. */
export async function inFolder<T>(
  files: ReadonlyMap<string, string>,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'meshwright-docs-'))
  try {
    for (const [name, text] of files) writeFileSync(join(folder, name), text)
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Part `output of ARGUMENTS` of a document, or `output of ARGUMENTS, lines 1-4, /text/-/text/, /text/`: what the command
 * prints into a pipe, first standard output, then standard error. A bound is a number, or a text that the next such
 * line holds. Lines that are left out are marked by `…`.
 */
export async function commandOutput(name: string, folder: string): Promise<string> {
  const [, line = '', ranges] = /^output of (.*?)(?:, lines (.+))?$/.exec(name) ?? []
  const all = (await run(shellWords(line), folder)).trimEnd().split('\n')
  const shown = ranges === undefined ? all : chosen(all, ranges)
  return ['```console', `$ npx meshwright ${line}`, ...shown, '```'].join('\n')
}

function chosen(all: readonly string[], ranges: string): string[] {
  const lines: string[] = []
  let next = 0
  const place = (bound: string, from: number): number => {
    const found = bound.startsWith('/')
      ? all.findIndex((line, index) => index >= from && line.includes(bound.slice(1, -1)))
      : Number(bound) - 1
    if (!(found >= 0 && found < all.length)) throw new Error(`no line ${bound} after line ${from}`)
    return found
  }
  for (const range of ranges.split(', ')) {
    const [, from, to] = /^(\d+|\/[^/]+\/)(?:-(\d+|\/[^/]+\/))?$/.exec(range) ?? []
    if (from === undefined) throw new Error(`"${range}" is no range of lines`)
    const first = place(from, next)
    const last = to === undefined ? first : place(to, first)
    if (first > next) lines.push('…')
    lines.push(...all.slice(first, last + 1))
    next = last + 1
  }
  if (next < all.length) lines.push('…')
  return lines
}

function run(words: readonly string[], folder: string): Promise<string> {
  const command = [join(root, 'dist', 'cli', 'main.js'), ...words]
  const env = { ...process.env, NO_COLOR: '1' }
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: folder, env, timeout: 60_000 }, (_, stdout, stderr) => {
      resolve(stdout + stderr)
    })
  })
}
