import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import ts from 'typescript'
import { afterAll, expect, test } from 'vitest'
import { readFloats } from '../safetensors/read.ts'
import { readCheckpoint } from './read.ts'
import { writeCheckpoint } from './write.ts'

const root = mkdtempSync(join(tmpdir(), 'meshwright-kill-'))
afterAll(() => rmSync(root, { recursive: true }))

/** Node 20 runs no TypeScript: a child gets the sources of the rooms it needs, stripped of their types. */
function emit(rooms: readonly string[], into: string): void {
  const source = join(import.meta.dirname, '..', '..')
  for (const room of rooms) {
    for (const name of readdirSync(join(source, room), { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue
      const path = join(source, room, name)
      const { outputText } = ts.transpileModule(readFileSync(path, 'utf8'), {
        compilerOptions: {
          module: ts.ModuleKind.ESNext,
          target: ts.ScriptTarget.ES2023,
          verbatimModuleSyntax: true,
          rewriteRelativeImportExtensions: true,
        },
      })
      const target = join(into, relative(source, path)).replace(/\.ts$/, '.js')
      mkdirSync(dirname(target), { recursive: true })
      writeFileSync(target, outputText)
    }
  }
  writeFileSync(join(into, 'package.json'), '{"type": "module"}')
}

const elements = 100_000
const kills = 8

/** Writes checkpoints of growing step for ever, each full of its own step, and says when one is done. */
const program = `
import { writeCheckpoint } from './data/checkpoint/write.js'
const [directory, first] = process.argv.slice(2)
for (let step = Number(first); ; step++) {
  const tensors = ['a', 'b'].map((name) => ({
    name, dtype: 'F32', shape: [${elements}],
    chunks: function* () {
      for (let i = 0; i < 10; i++) yield new Float32Array(${elements / 10}).fill(step)
    },
  }))
  const description = {
    libraryVersion: '0', step, seed: 0, dtype: 'f32', dataPosition: { epoch: 0, sample: step },
    plan: { text: '' }, model: null,
  }
  await writeCheckpoint(directory, description, tensors, 2)
  process.stdout.write(step + '\\n')
}
`

async function exitOf(child: ChildProcess): Promise<NodeJS.Signals | null> {
  return new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)))
}

test('a kill -9 at any moment leaves the last whole checkpoint readable', async () => {
  const code = join(root, 'code')
  emit(['base', 'data'], code)
  writeFileSync(join(code, 'child.js'), program)
  const directory = join(root, 'run')
  let next = 1
  for (let kill = 0; kill < kills; kill++) {
    const child = spawn(process.execPath, [join(code, 'child.js'), directory, String(next)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exit = exitOf(child)
    const writes: { step: number; at: number }[] = []
    await new Promise<void>((resolve, reject) => {
      child.stdout!.on('data', (text: Buffer) => {
        writes.push({ step: Number(text.toString().trim().split('\n').at(-1)), at: performance.now() })
        if (writes.length === 2) resolve()
      })
      child.once('exit', () => reject(new Error('the child ended by itself')))
    })
    // Kills are spread over the time that one write takes.
    await delay((writes[1]!.at - writes[0]!.at) * (kill / kills))
    child.kill('SIGKILL')
    expect(await exit).toBe('SIGKILL')

    const { description, state, skipped } = readCheckpoint(directory)
    expect(skipped).toEqual([])
    expect(description.step).toBeGreaterThanOrEqual(writes.at(-1)!.step)
    for (const name of ['a', 'b']) {
      const values = new Float32Array(elements)
      readFloats(state, name, values)
      expect(values.every((value) => value === description.step)).toBe(true)
    }
    next = description.step + 1
  }
  // A last write, undisturbed, leaves nothing of the killed ones.
  await writeCheckpoint(directory, readCheckpoint(directory).description, [], 1)
  expect(readdirSync(directory).sort()).toEqual(['latest', `step-${String(next - 1).padStart(6, '0')}`])
})
