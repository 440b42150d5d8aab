import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { isTemporaryOf, writeFileAtomic } from './atomicFile.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-atomic-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a file is replaced whole and nothing else is left', () => {
  const path = join(folder, 'plan.yaml')
  writeFileAtomic(path, 'a longer text é')
  writeFileAtomic(path, Uint8Array.of(0x68, 0x69))
  expect(readFileSync(path, 'utf8')).toBe('hi')
  expect(readdirSync(folder)).toEqual(['plan.yaml'])
})

test('a failure names the path and leaves nothing', () => {
  const taken = join(folder, 'taken')
  mkdirSync(taken)
  expect(() => writeFileAtomic(taken, 'x')).toThrow(
    expect.objectContaining({ code: 'DATA_NOT_WRITABLE', at: { file: taken }, hint: expect.any(String) }),
  )
  expect(() => writeFileAtomic(join(folder, 'none', 'x'), 'x')).toThrow(
    /none\/x cannot be written \(ENOENT\)$/,
  )
  expect(readdirSync(folder)).toEqual(['plan.yaml', 'taken'])
})

test('only its own temporary names count as such', () => {
  expect(isTemporaryOf('latest', 'latest.0123456789ab.tmp')).toBe(true)
  for (const name of ['latest', 'latest.tmp', 'other.0123456789ab.tmp', 'latest.0123456789ab.tmp.txt']) {
    expect(isTemporaryOf('latest', name)).toBe(false)
  }
})
