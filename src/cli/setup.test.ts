import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parsePlan, planPosition, printPlan } from '../plan/index.ts'
import { printSchedule, printScheduleCsv, scheduleChain } from '../schedule/index.ts'
import { loadModel, loadPlan, resolveFor } from './setup.ts'

const schedule = scheduleChain('gpipe', { actors: 2, microbatches: 4 })
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'meshwright-setup-'))
  writeFileSync(join(folder, 'own.txt'), `# mine\n${printSchedule(schedule)}`)
  writeFileSync(join(folder, 'own.csv'), printScheduleCsv(schedule, { dialect: 'compute' }))
  writeFileSync(
    join(folder, 'own.mjs'),
    `export default ({ stages, microbatches, placement }) => ({
      stages, microbatches, placement,
      actors: placement.map((_, stage) => ['F', 'B'].flatMap((phase) =>
        Array.from({ length: microbatches }, (_, microbatch) => ({ phase, stage, microbatch })))),
    })`,
  )
  writeFileSync(join(folder, 'torn.txt'), 'schedule 1\nstages 2 on 0,1\nmicrobatches 4\nactor 0: 0Q0\n')
  // Rank 1 waits for what rank 0 sends only after it has heard from rank 1.
  writeFileSync(
    join(folder, 'stuck.csv'),
    '0F0,0RECV_B0,0SEND_F0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n',
  )
  for (const file of ['stuck.csv', 'own.txt', 'own.csv', 'own.mjs', 'torn.txt', 'gone.txt'])
    writeFileSync(
      join(folder, `${file}.yaml`),
      `meshwright: 1\nmodel: gpt:layers=2\nmesh: { pipeline: 2 }\nschedule: { file: ${file} }\n`,
    )
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(['own.txt', 'own.csv', 'own.mjs'])('a plan takes its schedule from %s beside it', async (file) => {
  const loaded = await loadPlan(join(folder, `${file}.yaml`), {})
  const { document } = loaded
  expect(document.schedule).toEqual({ text: printSchedule(schedule) })
  expect(resolveFor(document, loadModel(loaded)).schedule).toEqual(schedule)
  // What is wrong with it is still said to be in the plan, and the plan can be kept without the file.
  expect(planPosition(document, ['schedule'])).toMatchObject({ line: 4, column: 11 })
  expect(parsePlan(printPlan(document))).toEqual(document)
})

test('a schedule file is named where it is not there or wrong', async () => {
  await expect(loadPlan(join(folder, 'torn.txt.yaml'), {})).rejects.toThrow(
    expect.objectContaining({
      code: 'SCHEDULE_TEXT',
      at: { file: join(folder, 'torn.txt'), line: 4, column: 11 },
    }),
  )
  await expect(loadPlan(join(folder, 'gone.txt.yaml'), {})).rejects.toThrow(/no schedule at .*gone\.txt/)
})

test('communication in a schedule file must be sound, though the compiler makes its own', async () => {
  await expect(loadPlan(join(folder, 'stuck.csv.yaml'), {})).rejects.toMatchObject({
    code: 'SCHEDULE_DEADLOCK',
    at: { file: join(folder, 'stuck.csv') },
  })
})

test('a flag gives another', async () => {
  const { document } = await loadPlan(join(folder, 'gone.txt.yaml'), { set: ['schedule.file=own.txt'] })
  expect(document.schedule).toEqual({ text: printSchedule(schedule) })
})
