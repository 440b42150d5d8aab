import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findDefaultText } from './defaultText.ts'
import { unigramEntropy } from './statistics.ts'
import { tokenizeText } from './tokens/text.ts'

const root = mkdtempSync(join(tmpdir(), 'meshwright-default-'))
afterAll(() => rmSync(root, { recursive: true }))

test('a checkout has the declarations of the TypeScript it is built with', async () => {
  const { paths, bytes, description } = findDefaultText()
  expect(paths).toEqual([expect.stringMatching(/typescript\/lib\/lib\.dom\.d\.ts$/)])
  expect(description).toMatch(/^lib\.dom\.d\.ts of TypeScript 5\./)
  expect(bytes.byteLength).toBeGreaterThan(1_000_000)
  const { tokens } = await tokenizeText(bytes, description)
  // English prose and code lie well below the ln 256 = 5.55 nats of noise, and well above a constant.
  expect(unigramEntropy(tokens)).toBeGreaterThan(2.5)
  expect(unigramEntropy(tokens)).toBeLessThan(4)
})

test('without TypeScript the package speaks about itself, in a fixed order', () => {
  expect(() => findDefaultText(root)).toThrow(
    expect.objectContaining({ code: 'DATA_MISSING', hint: 'give a text with --data FILE' }),
  )
  mkdirSync(join(root, 'docs'))
  mkdirSync(join(root, 'dist', 'cli'), { recursive: true })
  const files = {
    'README.md': 'r',
    'docs/b.md': 'b',
    'docs/a.md': 'a',
    'dist/cli/x.d.ts': 'x',
    'dist/cli/x.js': '-',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(root, name), text)
  const found = findDefaultText(root)
  expect(new TextDecoder().decode(found.bytes)).toBe('rabx')
  expect(found.paths).toEqual(
    ['README.md', 'docs/a.md', 'docs/b.md', 'dist/cli/x.d.ts'].map((name) => join(root, name)),
  )
  expect(found.description).toBe(
    'the documentation and declarations of this package (4 files from README.md on)',
  )
})
