import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root: string = join(import.meta.dirname, '..', '..')

export interface Fence {
  /** What stands behind the backquotes. */
  readonly language: string
  readonly lines: readonly string[]
  /** Of the opening backquotes, from 1. */
  readonly line: number
}

export interface Link {
  readonly target: string
  readonly line: number
}

/** The documents of the repository by their path from its root, with forward slashes. */
export function documentPaths(): string[] {
  const docs = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
  return ['README.md', 'CONTRIBUTING.md', ...docs.sort().map((name) => `docs/${name}`)]
}

export function readDocument(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** Each line of a document with the fence it is in, if it is in one. */
function walk(text: string): { readonly fences: Fence[]; readonly prose: string[] } {
  const fences: Fence[] = []
  const prose: string[] = []
  let open: { readonly mark: string; readonly language: string; readonly line: number } | undefined
  let lines: string[] = []
  for (const [index, line] of text.split('\n').entries()) {
    const mark = /^\s*(`{3,})(.*)$/.exec(line)
    prose.push(open === undefined && mark === null ? line : '')
    if (open === undefined) {
      if (mark !== null) open = { mark: mark[1]!, language: mark[2]!.trim(), line: index + 1 }
    } else if (mark !== null && mark[1] === open.mark && mark[2] === '') {
      fences.push({ language: open.language, line: open.line, lines })
      open = undefined
      lines = []
    } else lines.push(line)
  }
  if (open !== undefined) throw new Error(`the fence of line ${open.line} is not closed`)
  return { fences, prose }
}

export function fencesOf(text: string): Fence[] {
  return walk(text).fences
}

/** Links and images outside of fences and code spans. */
export function linksOf(text: string): Link[] {
  return walk(text).prose.flatMap((line, index) =>
    [...line.replaceAll(/`[^`]*`/g, '``').matchAll(/\]\(([^)\s]+)\)/g)].map((match) => ({
      target: match[1]!,
      line: index + 1,
    })),
  )
}

/** What stands between single backquotes outside of fences. */
export function codeSpansOf(text: string): Link[] {
  return walk(text).prose.flatMap((line, index) =>
    [...line.matchAll(/`([^`]+)`/g)].map((match) => ({ target: match[1]!, line: index + 1 })),
  )
}

/** The anchors that GitHub gives the headings. */
export function anchorsOf(text: string): Set<string> {
  return new Set(
    walk(text).prose.flatMap((line) => {
      const heading = /^#{1,6} (.*)$/.exec(line)?.[1]
      if (heading === undefined) return []
      return [
        heading
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
          .replaceAll(' ', '-'),
      ]
    }),
  )
}

const generated = /^<!-- generated: (.+?) -->\n([\s\S]*?)^<!-- end -->$/gm

/** Names of the generated parts of a document. */
export function generatedNames(text: string): string[] {
  return [...text.matchAll(generated)].map((match) => match[1]!)
}

/** The document with its generated parts made anew. */
export function regenerate(text: string, make: ReadonlyMap<string, string>): string {
  return text.replaceAll(generated, (_, name: string) => {
    const part = make.get(name)
    if (part === undefined) throw new Error(`nothing generates "${name}"`)
    return `<!-- generated: ${name} -->\n\n${part}\n\n<!-- end -->`
  })
}

/** Words of a command line as a POSIX shell splits them; single and double quotes, nothing else. */
export function shellWords(line: string): string[] {
  return [...line.matchAll(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g)].map(([word]) => word.replaceAll(/['"]/g, ''))
}
