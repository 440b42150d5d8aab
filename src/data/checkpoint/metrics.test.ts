import { appendFileSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { MetricsFile, openMetrics } from './metrics.ts'

const folder = mkdtempSync(join(tmpdir(), 'meshwright-metrics-'))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'metrics.ndjson')
const lines = (): unknown[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown)

function write(steps: readonly number[], keepThroughStep?: number): void {
  const metrics = openMetrics(path, keepThroughStep)
  for (const step of steps) metrics.append({ step, loss: 1 / step })
  metrics.sync()
  metrics.close()
}

test('a new run starts empty, a resumed one goes on after the step it resumes from', () => {
  write([7, 8])
  write([1, 2, 3, 4])
  write([3, 4, 5], 2)
  expect(lines()).toEqual([1, 2, 3, 4, 5].map((step) => ({ step, loss: 1 / step })))
  write([], 0)
  expect(lines()).toEqual([])
})

test('a line that was half written is dropped, lines of other kinds are kept', () => {
  writeFileSync(path, '{"event":"start"}\nnot json\n{"step":1,"loss":2}\n')
  appendFileSync(path, '{"step":2,"lo')
  write([2], 1)
  expect(readFileSync(path, 'utf8')).toBe(
    '{"event":"start"}\nnot json\n{"step":1,"loss":2}\n{"step":2,"loss":0.5}\n',
  )
})

test('files and lines longer than one block are cut at the right place', () => {
  const long = (step: number): string => `${JSON.stringify({ text: 'x'.repeat(700_000), step })}\n`
  const huge = `${JSON.stringify({ step: 4, text: 'y'.repeat(3_000_000) })}\n`
  const kept = long(1) + long(2) + long(3) + huge
  writeFileSync(path, kept + long(5) + long(6))
  write([], 4)
  expect(readFileSync(path, 'utf8') === kept).toBe(true)
})

test('numbers that JSON lacks become null', () => {
  const metrics = openMetrics(path)
  metrics.append({ step: 1, loss: Number.NaN })
  metrics.close()
  expect(readFileSync(path, 'utf8')).toBe('{"step":1,"loss":null}\n')
})

test('a full disk and a folder that is not there are named', () => {
  const full = new MetricsFile('/dev/full', openSync('/dev/full', 'w'))
  expect(() => full.append({ step: 1 })).toThrow(
    expect.objectContaining({
      code: 'DATA_DISK_FULL',
      exitCode: 5,
      message: 'no space left to write /dev/full (ENOSPC)',
    }),
  )
  full.close()
  expect(() => openMetrics(join(folder, 'none', 'm'))).toThrow(
    expect.objectContaining({ code: 'DATA_NOT_WRITABLE' }),
  )
})
