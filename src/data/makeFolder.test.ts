import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeFolder } from './makeFolder.ts'

const root = mkdtempSync(join(tmpdir(), 'meshwright-folder-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

test('makes a folder with those above it, and may be asked again', () => {
  const folder = join(root, 'a', 'b', 'c')
  makeFolder(folder)
  makeFolder(folder)
  expect(statSync(folder).isDirectory()).toBe(true)
})

test('a file in the way is an error', () => {
  const file = join(root, 'file')
  writeFileSync(file, 'x')
  expect(() => makeFolder(file)).toThrow(/EEXIST/)
  expect(() => makeFolder(join(file, 'below'))).toThrow(/ENOTDIR/)
})

test.runIf(existsSync('/proc/self'))(
  'a place that takes no folders is an error, not a wait without end',
  () => {
    expect(() => makeFolder('/proc/no-folder-here')).toThrow(/ENOENT/)
  },
)
