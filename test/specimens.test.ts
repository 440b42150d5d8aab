import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createEmulator } from '../src/engine/index.ts'
import { parseProgram, printProgram, verifyProgram } from '../src/program/index.ts'

const folder = new URL('./specimens/', import.meta.url)
const names = readdirSync(folder).map((n) => n.replace('.program', '')).sort()
const only = process.env['ONLY']
test.each(names.filter((n) => only === undefined || only.split(',').some((o) => n.startsWith(o))))('%s', (name) => {
  const text = readFileSync(new URL(`${name}.program`, folder), 'utf8')
  const p = parseProgram(text, { file: name })
  const full = printProgram(p, { full: true })
  expect(parseProgram(full)).toStrictEqual(p)
  expect(printProgram(parseProgram(full), { full: true })).toBe(full)
  const v = verifyProgram(p)
  if (v.findings.length) console.log(name, v.findings.map((f) => `${f.code}: ${f.message}`).slice(0, 8).join('\n'))
  console.log(name, 'skipped', v.skipped.join(' '), p.roles.reduce((s, r) => s + r.code.length, 0))
  createEmulator(p)
  expect(v.findings).toEqual([])
})
