import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { blockCosts } from '../src/graph/index.ts'
import { modelFromShortName } from '../src/models/index.ts'
import { expandAlias } from '../src/plan/aliases.ts'
import { parsePlan, resolvePlan } from '../src/plan/index.ts'
import { commandOutput, inFolder, namedFiles } from './support/docOutputs.ts'
import { cliCommands, generatedParts } from './support/docTables.ts'
import {
  anchorsOf,
  codeSpansOf,
  documentPaths,
  fencesOf,
  generatedNames,
  linksOf,
  readDocument,
  regenerate,
  root,
  shellWords,
} from './support/documents.ts'
import { findErrorCodes } from './support/errorCodes.ts'

const documents = documentPaths().map((path) => ({ path, text: readDocument(path) }))

describe.each(documents)('$path', ({ path, text }) => {
  it('has generated parts that are what the code gives (`npm run build && npx vitest run test/docs.test.ts -u` writes them)', async () => {
    const names = generatedNames(text)
    expect(names.length).toBe(text.split('<!-- generated').length - 1)
    const make = generatedParts()
    const parts = await inFolder(namedFiles(fencesOf(text)), async (folder) => {
      const made = new Map<string, string>()
      for (const name of names) made.set(name, make.get(name)?.() ?? (await commandOutput(name, folder)))
      return made
    })
    await expect(regenerate(text, parts)).toMatchFileSnapshot(join(root, path))
  })

  it('has links that lead somewhere', () => {
    const broken = linksOf(text).filter(({ target }) => {
      if (/^https?:/.test(target)) return false
      const [file = '', anchor] = target.split('#')
      const place = file === '' ? path : normalize(join(dirname(path), file))
      if (!existsSync(join(root, place))) return true
      return anchor !== undefined && !anchorsOf(readDocument(place)).has(anchor)
    })
    expect(broken.map(({ target, line }) => `${path}:${line} ${target}`)).toEqual([])
  })

  it('has command lines that parse', () => {
    const wrong = commandLines(text).flatMap(({ target, line }) => {
      const problem = whyRefused(shellWords(target))
      return problem === undefined ? [] : [`${path}:${line} ${target}: ${problem}`]
    })
    expect(wrong).toEqual([])
  })

  it('has plans that compile, or are shown with what is wrong with them', () => {
    const shown = generatedNames(text).join('\n')
    for (const { language, lines } of fencesOf(text)) {
      const plan = lines.join('\n')
      if (language !== 'yaml' || !plan.includes('\nmodel:')) continue
      const name = /^# (\S+)/.exec(lines[0] ?? '')?.[1]
      if (name !== undefined && new RegExp(`output of check .*${name}`).test(shown)) continue
      const document = parsePlan(plan)
      const model = modelFromShortName((document.model as { readonly name: string }).name)
      const { blocks } = blockCosts(model.build({ batch: 1, sequence: model.context, dtype: 'f32' }))
      expect(resolvePlan(document, model, { blockCosts: blocks }).ranks.length).toBeGreaterThan(0)
    }
  })

  it('has examples that run from the package', () => {
    for (const { language, lines } of fencesOf(text)) {
      if (language !== 'js') continue
      const options = { cwd: root, encoding: 'utf8', timeout: 60_000 } as const
      const output = execFileSync(process.execPath, ['--input-type=module', '-e', lines.join('\n')], options)
      expect(output).not.toBe('')
    }
  })
})

describe('the documents together', () => {
  const all = documents.map(({ text }) => text).join('\n')

  it('name every error code and finding, and none that is not there', () => {
    const { codes, unknownPrefixes } = findErrorCodes()
    expect(unknownPrefixes).toEqual([])
    expect(codes.size).toBeGreaterThan(100)
    const findings = documentedCodes('docs/program.md')
    const ofVerifier = [...codes].flatMap(([code, files]) =>
      [...files].some((file) => file.startsWith('program/verify/')) ? [code] : [],
    )
    expect(findings).toEqual(ofVerifier.sort())
    expect([...documentedCodes('docs/errors.md'), ...findings].sort()).toEqual([...codes.keys()].sort())
  })

  it('have a page for each command, and the command line has no other', () => {
    const names = cliCommands().map((command) => command.name())
    for (const name of names) expect(existsSync(join(root, 'docs', `${name}.md`)), name).toBe(true)
    const main = readFileSync(join(root, 'src', 'cli', 'main.ts'), 'utf8')
    const listed = /const commands = \[([^\]]*)\]/.exec(main)?.[1] ?? ''
    expect(listed.match(/\w+(?=Command)/g)?.sort()).toEqual([...names].sort())
  })

  it('are all linked from the README', () => {
    const linked = new Set(linksOf(readDocument('README.md')).map(({ target }) => target.split('#')[0]))
    const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
    expect(pages.filter((name) => !linked.has(`docs/${name}`))).toEqual([])
  })

  it('speak of npm scripts that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      readonly scripts: Readonly<Record<string, string>>
    }
    const named = [...all.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map((match) => match[1]!)
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([])
  })

  it('import from the package only what it exports', () => {
    const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      readonly exports: Readonly<Record<string, unknown>>
    }
    const named = [...all.matchAll(/(?<!\/)meshwright\/([\w.]+\w)/g)].map((match) => `./${match[1]}`)
    expect([...new Set(named)].filter((name) => exports[name] === undefined)).toEqual([])
  })

  it('know what short names of a plan stand for', () => {
    // By hand, from the page that people read.
    expect(expandAlias(['pp'])).toEqual(['mesh', 'pipeline'])
    expect(expandAlias(['dp'])).toEqual(['mesh', 'data'])
    expect(expandAlias(['gbs'])).toEqual(['batch', 'samples'])
    expect(expandAlias(['lr'])).toEqual(['learningRate', 'peak'])
  })
})

/** First cells of table rows that are nothing but a code. */
function documentedCodes(path: string): string[] {
  const rows = readDocument(path).matchAll(/^\| `([A-Z][A-Z\d_]+)` \|/gm)
  return [...rows].map((match) => match[1]!).sort()
}

/** Every command line of ours in fences and code spans, without `npx meshwright`. */
function commandLines(text: string): { readonly target: string; readonly line: number }[] {
  const pattern = /^(?:\$ )?npx meshwright( .*)?$/
  const fenced = fencesOf(text).flatMap(({ lines, line }) =>
    lines.map((target, index) => ({ target, line: line + index + 1 })),
  )
  return [...fenced, ...codeSpansOf(text)].flatMap(({ target, line }) => {
    const match = pattern.exec(target)
    return match === null ? [] : [{ target: (match[1] ?? '').trim(), line }]
  })
}

/** What the command line would have against these words, without running anything. */
function whyRefused(words: readonly string[]): string | undefined {
  const [name, ...rest] = words
  if (name === undefined || name === 'COMMAND') return undefined
  let command = cliCommands().find((candidate) => candidate.name() === name)
  while (command !== undefined && command.commands.length > 0) {
    const below = rest.shift()
    command = command.commands.find((candidate) => candidate.name() === below)
  }
  if (command === undefined) return `there is no command ${words.slice(0, 2).join(' ')}`
  try {
    silent(command).parse(rest, { from: 'user' })
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

function silent(command: Command): Command {
  return command
    .exitOverride()
    .configureOutput({ writeErr: () => {}, writeOut: () => {} })
    .action(() => {})
}
