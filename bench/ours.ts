/** Meshwright's side of the benchmark: the same commands and answers as `torch/serve.py`. */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { env } from 'onnxruntime-node'
import { compile, learningRateOf, lowerVerified } from '../src/cli/prepare.ts'
import { type Batch, writeSafetensors } from '../src/data/index.ts'
import { createLocalEngine, type Engine, type StateTensors } from '../src/engine/index.ts'
import { initialState } from '../src/engine/training/initialState.ts'
import { stepInput } from '../src/engine/training/step.ts'
import { parsePlan } from '../src/plan/index.ts'
import type { Job, OursHello } from './job.ts'
import { prepareProduct } from './matrixProduct.ts'
import type { Command, RunAnswer } from './side.ts'

const say = (answer: object): void => {
  process.stdout.write(`@${JSON.stringify(answer)}\n`)
}

/** Of this process since it began; Linux only. `getrusage` would count what the parent had when it forked. */
function peakResidentBytes(): number | null {
  try {
    const found = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))
    return found === null ? null : Number(found[1]) * 1024
  } catch {
    return null
  }
}

function readBatches(job: Job): Batch[] {
  const file = readFileSync(job.batches)
  const elements = new Int32Array(file.buffer, file.byteOffset, file.byteLength / 4)
  const size = job.samples * job.sequence
  return Array.from({ length: elements.length / (2 * size) }, (_, index) => ({
    tokens: elements.slice(2 * index * size, (2 * index + 1) * size),
    labels: elements.slice((2 * index + 1) * size, (2 * index + 2) * size),
    targets: size,
  }))
}

async function writeWeights(path: string, state: StateTensors, names: readonly string[]): Promise<void> {
  const tensors = names.map((name) => {
    const { shape, data } = state.get(name)!
    return { name, dtype: 'F32' as const, shape, chunks: () => [data] }
  })
  await writeSafetensors(path, tensors)
}

interface Prepared {
  readonly hello: OursHello
  readonly run: (steps: number) => Promise<RunAnswer>
  readonly engine?: Engine
}

async function prepare(job: Job): Promise<Prepared> {
  const compiled = compile({ document: parsePlan(job.plan), directory: '.', source: 'the benchmark' })
  const { model, optimizer, plan, document } = compiled
  const state = initialState({ model, optimizer, dtype: plan.dtype, seed: document.seed })
  await writeWeights(
    job.weights,
    state,
    model.parameters.map(({ name }) => name),
  )
  const batches = readBatches(job)
  const learningRate = learningRateOf(document, 1000)
  const engine = await createLocalEngine(lowerVerified(compiled))
  await engine.writeState(state)
  let done = 0
  const run = async (steps: number): Promise<RunAnswer> => {
    const seconds: number[] = []
    const losses: number[] = []
    const compute: number[] = []
    for (let step = done; step < done + steps; step++) {
      const batch = batches[step % batches.length]!
      const began = performance.now()
      const result = await engine.step(stepInput(step, batch, optimizer, learningRate))
      seconds.push((performance.now() - began) / 1000)
      losses.push(result.scalars['loss']! / batch.targets)
      compute.push(Math.max(...result.ranks.map((rank) => rank.seconds.compute)))
    }
    done += steps
    return { seconds, losses, compute }
  }
  const parameters = model.parameters.reduce(
    (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  )
  const hello = { onnxRuntime: ortVersion(), stages: plan.stages.map(({ layers }) => layers), parameters }
  return { hello, run, engine }
}

function ortVersion(): string {
  return env.versions.node ?? env.versions.common
}

async function main(path: string): Promise<void> {
  const job = JSON.parse(readFileSync(path, 'utf8')) as Job | null
  const prepared = job === null ? undefined : await prepare(job)
  let multiply: (() => Promise<number>) | undefined
  say(prepared?.hello ?? { onnxRuntime: ortVersion() })
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === '') break
    const command = JSON.parse(line) as Command
    if ('run' in command) say(await prepared!.run(command.steps))
    else if ('memory' in command) say({ bytes: peakResidentBytes() })
    else {
      multiply ??= await prepareProduct(command.sizes)
      const seconds: number[] = []
      for (let turn = 0; turn < command.multiply; turn++) seconds.push(await multiply())
      say({ seconds })
    }
  }
  await prepared?.engine?.stop()
}

await main(process.argv[2]!)
