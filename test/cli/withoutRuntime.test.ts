import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandFile, meshwright } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const file = join(folder.path, 'dist/cli/main.js')
const directory = folder.path

/** A copy of the package beside every dependency but ONNX Runtime. */
beforeAll(() => {
  const root = resolve(dirname(commandFile), '../..')
  for (const part of ['dist', 'package.json'])
    cpSync(join(root, part), join(folder.path, part), { recursive: true })
  const [from, to] = [join(root, 'node_modules'), join(folder.path, 'node_modules')]
  mkdirSync(to)
  for (const name of readdirSync(from))
    if (!name.startsWith('onnxruntime')) symlinkSync(join(from, name), join(to, name))
})

describe.concurrent('without ONNX Runtime', () => {
  test.each([
    [['--help'], /Usage/],
    [['check'], /✓/],
    [['check', '--model', 'llama:layers=4,hidden=64,heads=4'], /✓/],
    [['show', '--rank', '0'], /role/],
    [['show', '--grid'], /F0/],
    [['doctor'], /ONNX Runtime +not installed .*npm install onnxruntime-node@/],
  ])('%j works', async (words, output) => {
    const { code, stdout, stderr } = await meshwright(words, { file, directory })
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(output)
  })

  test.each([[['train', '--steps', '1']], [['check', '--run']]])('%j says what to install', async (words) => {
    const { code, stderr } = await meshwright(words, { file, directory })
    expect(stderr).toMatch(/^error ENGINE_NO_ONNXRUNTIME .*\n +hint .*npm install onnxruntime-node@1\.30\.0/)
    expect(stderr).not.toMatch(/^ +at /m)
    expect(code).toBe(2)
  })
})
