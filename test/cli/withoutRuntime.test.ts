import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandFile, meshwright } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = join(folder.path, 'without')
const file = join(directory, 'dist/cli/main.js')
const broken = join(folder.path, 'broken')

/** A copy of the package beside every dependency but ONNX Runtime. */
function copyPackage(to: string): void {
  const root = resolve(dirname(commandFile), '../..')
  mkdirSync(join(to, 'node_modules'), { recursive: true })
  for (const part of ['dist', 'package.json']) cpSync(join(root, part), join(to, part), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')))
    if (!name.startsWith('onnxruntime'))
      symlinkSync(join(root, 'node_modules', name), join(to, 'node_modules', name))
}

beforeAll(() => {
  copyPackage(directory)
  copyPackage(broken)
  // One that was installed for another system.
  const runtime = join(broken, 'node_modules/onnxruntime-node')
  mkdirSync(runtime)
  writeFileSync(join(runtime, 'package.json'), '{"name": "onnxruntime-node", "main": "index.js"}')
  writeFileSync(join(runtime, 'index.js'), "require('./binding.node')")
})

describe.concurrent('without ONNX Runtime', () => {
  test.each([
    [['--help'], /Usage/],
    [['check'], /✓/],
    [['check', '--model', 'llama:layers=4,hidden=64,heads=4'], /✓/],
    [['show', '--rank', '0'], /role/],
    [['show', '--grid'], /F0/],
    [['doctor'], /ONNX Runtime +not installed .*npm install onnxruntime-node@1\.30\.0 --ignore-scripts/],
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

describe.concurrent('with an ONNX Runtime that does not load', () => {
  const broke = { file: join(broken, 'dist/cli/main.js'), directory: broken }

  test('doctor says so', async () => {
    const { code, stdout } = await meshwright(['doctor'], broke)
    expect(stdout).toMatch(
      /ONNX Runtime +installed, does not load .*\(Cannot find module '\.\/binding\.node'\); install it: npm install /,
    )
    expect(code).toBe(0)
  })

  test('train says so', async () => {
    const { code, stderr } = await meshwright(['train', '--steps', '1'], broke)
    expect(stderr).toMatch(
      /^error ENGINE_NO_ONNXRUNTIME ONNX Runtime is installed but does not load: .*binding\.node.*\n +hint install it/m,
    )
    expect(code).toBe(2)
  })
})
