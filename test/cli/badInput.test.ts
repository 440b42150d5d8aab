import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { meshwright } from '../support/command.ts'
import { temporaryFolder } from '../support/trainingRuns.ts'
import { damageWeights, writeWeights } from '../support/weightFiles.ts'

const folder = temporaryFolder()
afterAll(folder.remove)
const directory = folder.path
const model = 'gpt:layers=2,hidden=16,heads=2,context=16'

const write = (name: string, content: string | Uint8Array): void =>
  writeFileSync(join(directory, name), content)

beforeAll(async () => {
  const plan = `meshwright: 1\nmodel: ${model}\nmesh: { pipeline: 2 }\nbatch: { samples: 4, microbatches: 2 }\n`
  write('plan.yaml', plan)
  write('text.txt', 'words that make a text, over and over. '.repeat(20))
  write('empty.txt', '')
  write('short.txt', 'too short')
  write(
    'binary.bin',
    Uint8Array.from({ length: 4096 }, (_, index) => (index * 97) % 256),
  )
  write('malformed.yaml', 'meshwright: 1\nmodel: [gpt\n')
  write('prose.yaml', 'this is no plan at all\n')
  write('unknown.yaml', `${plan}batchh: 3\n`)
  write('nested.yaml', plan.replace('microbatches', 'microbatchs'))
  write('nothing.json', '{"model_type": "bert"}')
  write('torn.json', '{"model_type": ')
  await writeWeights(join(directory, 'whole.safetensors'), model)
  await writeWeights(join(directory, 'lacking.safetensors'), model, (name, data) =>
    name === 'transformer.h.1.ln_2.bias' ? undefined : data,
  )
  damageWeights(directory, 'whole.safetensors')
  write(
    'model.safetensors.index.json',
    JSON.stringify({ weight_map: { 'transformer.wte.weight': 'gone.safetensors' } }),
  )
})

const train = (...words: string[]): string[] => [
  'train',
  'plan.yaml',
  '--data',
  'text.txt',
  '--steps',
  '1',
  ...words,
]
const weights = (file: string): string[] => train('--set', `model.weights=${file}`)

/** What is wrong, the command that meets it, and what its message has to say. */
const cases: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['a data file that is not there', train('--data', 'gone.txt'), /no data file at .*gone\.txt/],
  ['an empty data file', train('--data', 'empty.txt'), /empty\.txt is empty/],
  ['a binary data file', train('--data', 'binary.bin'), /binary\.bin looks binary/],
  ['a folder as data file', train('--data', '.'), /is a folder, not a regular file/],
  [
    'a text shorter than a sequence',
    train('--data', 'short.txt'),
    /short\.txt has 9 tokens.*16 tokens.*take 17/,
  ],
  [
    'a token beyond the vocabulary',
    train('--model', 'gpt:layers=2,hidden=16,heads=2,context=16,vocab=100'),
    /token 119 at position 0 .*vocabulary of 100/,
  ],
  [
    'hidden not divisible by heads',
    train('--model', 'gpt:hidden=30,heads=4'),
    /hidden 30 .*heads 4\n.*28 or 32/,
  ],
  ['more stages than layers', train('--set', 'mesh.pipeline=3'), /3 stages for the 2 layers/],
  [
    'a batch that does not divide',
    train('--set', 'batch.samples=5'),
    /5 samples do not divide into 2 micro-batches/,
  ],
  [
    'a micro-batch that does not divide over replicas',
    train('--set', 'mesh.data=[3, 1]'),
    /micro-batch of 2 samples does not divide over the 3 replicas/,
  ],
  ['a malformed plan', ['train', 'malformed.yaml'], /malformed\.yaml:3:1: /],
  ['a malformed plan, to check', ['check', 'malformed.yaml'], /malformed\.yaml:3:1: /],
  ['what is no plan, to check', ['check', 'prose.yaml'], /prose\.yaml:1:1: expected a mapping/],
  ['a plan that is not there, to check', ['check', 'gone.yaml'], /no plan at gone\.yaml/],
  ['an unknown key', ['train', 'unknown.yaml'], /unknown\.yaml:5:1 batchh: unknown key "batchh"\n.*"batch"/],
  [
    'an unknown key inside',
    ['show', 'nested.yaml'],
    /nested\.yaml:4:22 batch\.microbatchs: unknown key "microbatchs"\n.*"microbatches"/,
  ],
  ['an unknown model', train('--model', 'ggpt:layers=2'), /no model "ggpt"\n.*"gpt"/],
  ['a config of another model', train('--model', 'nothing.json'), /nothing\.json.*bert/],
  ['a config that is not JSON', train('--model', 'torn.json'), /torn\.json is not JSON/],
  ['a sequence past the context', train('--set', 'sequence=17'), /sequences of 17 tokens .*context is 16/],
  ['weights that are not there', weights('gone.safetensors'), /no safetensors file .*gone\.safetensors/],
  ['a weight file cut short', weights('truncated.safetensors'), /truncated\.safetensors: .*file holds/],
  [
    'overlapping weights',
    weights('overlapping.safetensors'),
    /overlapping\.safetensors: .*"transformer\.[a-z0-9._]+" begins .* inside tensor/,
  ],
  [
    'weights outside their file',
    weights('outside.safetensors'),
    /outside\.safetensors: .*"transformer\.[a-z0-9._]+" takes bytes .* but the file holds/,
  ],
  ['weights that lack a parameter', weights('lacking.safetensors'), /"transformer\.h\.1\.ln_2\.bias"/],
  ['a shard that is not there', weights('model.safetensors.index.json'), /gone\.safetensors/],
  ['a resume from nothing', train('--resume', 'gone'), /no checkpoint at gone/],
  ['a resume from a folder without checkpoints', train('--resume', '.'), /no checkpoint in \./],
  ['an output folder below a file', train('--out', 'text.txt/run'), /text\.txt\/run cannot be written/],
  ['an output folder that nobody may make', train('--out', '/proc/run'), /\/proc\/run cannot be written/],
]

describe.concurrent('bad input is refused with 2, what is wrong, and no stack', () => {
  test.each(cases)('%s', async (_, words, message) => {
    const { code, stdout, stderr } = await meshwright(words, { directory })
    expect(stderr).toMatch(message)
    expect(stderr).toMatch(/^error [A-Z_]+ /m)
    expect(stderr).not.toMatch(/^ +at |node:internal|mistake of Meshwright/m)
    expect([code, stdout]).toEqual([2, ''])
  })
})
