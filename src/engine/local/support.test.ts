import { expect, it } from 'vitest'
import { specimenText } from '../../../test/support/specimens.ts'
import { parseProgram } from '../../program/index.ts'
import { createLocalEngine } from './start.ts'

it.each([
  ['06', 'its task gatherLabels is missing: gather: the label of every member of a neighbourhood'],
  ['08', 'its task copy copies between tiers'],
  ['15', 'w0 is read as an earlier step left it'],
  ['12', 'collective #21 takes a mean'],
  ['13', 'several of its ranks share a device'],
])('the local engine refuses specimen %s: %s', async (number, reason) => {
  const started = createLocalEngine(parseProgram(specimenText(number)))
  await expect(started).rejects.toMatchObject({
    code: 'ENGINE_UNSUPPORTED',
    exitCode: 5,
    message: expect.stringContaining(reason),
  })
})
