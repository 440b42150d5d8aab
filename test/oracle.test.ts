import { expect, test } from 'vitest'
import { learningRateOf } from '../src/cli/prepare.ts'
import type { Batch } from '../src/data/index.ts'
import { compareTensors } from '../src/engine/training/compare.ts'
import type { HostTensor, StateTensors } from '../src/engine/types.ts'
import { interpretGraph } from '../src/graph/index.ts'
import type { Model } from '../src/models/index.ts'
import { learningRateAt } from '../src/optimizers/index.ts'
import { inputsOf, lossAndGradients } from './support/modelFixture.ts'
import {
  compilePlan,
  planOf,
  randomBatches,
  runOn,
  stateOf,
  type TrainingCase,
} from './support/trainingCase.ts'

/** One rank, the whole batch at once: what every plan is compared with. */
const serialCase = (family: TrainingCase['family']): TrainingCase => ({
  family,
  tied: family === 'gpt',
  stages: 1,
  replicas: [1],
  microbatches: 1,
  schedule: '1f1b a',
  cut: 'by cost',
  optimizer: 'adamw',
})
const samples = 3
const steps = 3

type Weights = Map<string, Float64Array>

const rows = (values: Int32Array): number[][] =>
  Array.from({ length: samples }, (_, row) => [
    ...values.subarray((row * values.length) / samples, ((row + 1) * values.length) / samples),
  ])

const dataOf = ({ tokens, labels }: Batch) => ({ tokens: rows(tokens), labels: rows(labels) })

/** The mean loss of the model's own graph, neither cut nor lowered. */
function meanLoss(model: Model, batch: Batch, weights: Weights): number {
  const inputs = inputsOf(model, dataOf(batch), (name) => weights.get(name)!)
  const graph = model.build({ batch: samples, sequence: batch.tokens.length / samples, dtype: 'f64' })
  return interpretGraph(graph, inputs).get('loss')!.data[0]! / batch.targets
}

const tensors = (model: Model, values: ReadonlyMap<string, ArrayLike<number>>): StateTensors =>
  new Map(
    model.parameters.map(({ name, shape }): [string, HostTensor] => [
      name,
      { dtype: 'f64', shape, data: Float64Array.from(values.get(name)!) },
    ]),
  )

/**
 * Adam as its paper has it (Kingma and Ba 2015, algorithm 1), with decoupled weight decay (Loshchilov and Hutter 2019)
 * and clipping by the global norm, element by element.
 */
class Reference {
  readonly weights: Weights
  private readonly m = new Map<string, Float64Array>()
  private readonly v = new Map<string, Float64Array>()
  private readonly decays: ReadonlyMap<string, boolean>

  constructor(model: Model, initial: StateTensors) {
    this.weights = new Map(
      model.parameters.map(({ name }) => [name, Float64Array.from(initial.get(name)!.data)]),
    )
    this.decays = new Map(model.parameters.map(({ name, decay }) => [name, decay]))
  }

  update(
    step: number,
    rate: number,
    maxNorm: number,
    gradients: ReadonlyMap<string, ArrayLike<number>>,
  ): number {
    let squares = 0
    for (const gradient of gradients.values())
      for (const value of Array.from(gradient)) squares += value * value
    const norm = Math.sqrt(squares)
    const factor = norm > maxNorm ? maxNorm / (norm + 1e-6) : 1
    for (const [name, w] of this.weights) {
      const m = this.m.get(name) ?? new Float64Array(w.length)
      const v = this.v.get(name) ?? new Float64Array(w.length)
      for (let index = 0; index < w.length; index++) {
        const gradient = gradients.get(name)![index]! * factor
        m[index] = 0.9 * m[index]! + 0.1 * gradient
        v[index] = 0.95 * v[index]! + 0.05 * gradient ** 2
        const corrected = m[index]! / (1 - 0.9 ** step) / (Math.sqrt(v[index]! / (1 - 0.95 ** step)) + 1e-8)
        w[index]! -= rate * (corrected + (this.decays.get(name)! ? 0.1 * w[index]! : 0))
      }
      this.m.set(name, m)
      this.v.set(name, v)
    }
    return norm
  }
}

test.each(['gpt', 'llama', 'moe'] as const)(
  'serial training of %s is what the reference interpreter, finite differences and a plain loop of AdamW say',
  async (family) => {
    const compiled = compilePlan({ ...planOf(serialCase(family)), batch: { samples, microbatches: 1 } })
    const { model, document, plan } = compiled
    const batches = randomBatches(compiled, steps)
    const records = await runOn('local', compiled, batches)
    const reference = new Reference(model, stateOf(compiled))
    for (const [step, batch] of batches.entries()) {
      const { result, state } = records[step]!
      expect(result.scalars['loss']! / batch.targets).toBeCloseTo(
        meanLoss(model, batch, reference.weights),
        12,
      )
      const given = new Map([...result.tensors['gradients']!].map(([name, { data }]) => [name, data]))

      // The gradient: of every parameter by the un-cut graph, of some elements by finite differences of its loss.
      const inputs = inputsOf(model, dataOf(batch), (name) => reference.weights.get(name)!)
      const whole = lossAndGradients(model, inputs).gradients
      const means = new Map(
        [...whole].map(([name, sum]) => [name, Float64Array.from(sum, (one) => one / batch.targets)]),
      )
      expect(compareTensors(tensors(model, given), tensors(model, means))[0]!.error).toBeLessThan(1e-12)
      for (const { name } of model.parameters.filter((_, index) => index % 5 === step)) {
        const w = reference.weights.get(name)!
        const at = (7 * step + 3) % w.length
        const kept = w[at]!
        const h = 1e-5
        const [above, below] = [kept + h, kept - h].map((value) => {
          w[at] = value
          return meanLoss(model, batch, reference.weights)
        })
        w[at] = kept
        expect(given.get(name)![at]).toBeCloseTo((above! - below!) / (2 * h), 8)
      }

      // The update.
      const rate = learningRateAt(step + 1, learningRateOf(document, steps))
      const norm = reference.update(step + 1, rate, plan.clip!, means)
      expect(norm).toBeGreaterThan(plan.clip!)
      expect(result.scalars['gradientNorm']).toBeCloseTo(norm, 12)
      const updated = new Map([...state].filter(([name]) => reference.weights.has(name)))
      expect(compareTensors(updated, tensors(model, reference.weights))[0]!.error).toBeLessThan(1e-12)
    }
  },
)
