import { describe, expect, it } from 'vitest'
import {
  canonicalHash,
  interpretGraph,
  makeTensor,
  ruleOf,
  scalarTensor,
  type Tensor,
} from '../graph/index.ts'
import { makeOptimizer, optimizers } from './registry.ts'
import type { Optimizer } from './types.ts'

const start = [1, -2, 0.5]
const rates = [0.1, 0.2, 0.05, 0.1]
const gradients = [
  [0.5, -1.25, 2],
  [-0.75, 0.125, 3],
  [0, 1, -0.5],
  [0.25, -0.25, 0],
]

/** Weights after every step, and the states at the end. */
function train(
  optimizer: Optimizer,
  decay: boolean,
  clipFactor = 1,
): { weights: number[][]; states: number[][] } {
  const type = { dtype: 'f64', shape: [start.length] } as const
  const graph = optimizer.build({ elements: start.length, dtype: 'f64', decay })
  let region: Record<string, Tensor> = { w: makeTensor(type, start) }
  for (const { name } of optimizer.states) region[name] = makeTensor(type, [0, 0, 0])
  const weights = gradients.map((gradient, index) => {
    const scalars = { learningRate: rates[index]!, clipFactor, ...optimizer.optimizerScalars(index + 1) }
    const outputs = interpretGraph(graph, {
      ...region,
      g: makeTensor(type, gradient),
      ...Object.fromEntries(
        Object.entries(scalars).map(([name, value]) => [name, scalarTensor('f64', value)]),
      ),
    })
    region = Object.fromEntries(outputs)
    return [...region['w']!.data]
  })
  return { weights, states: optimizer.states.map(({ name }) => [...region[name]!.data]) }
}

/**
 * torch 2.13.0, float64:
 *
 *   w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
 *   optimizer = torch.optim.…([w], …)
 *   for rate, gradient in zip(rates, gradients):
 *       optimizer.param_groups[0]["lr"] = rate
 *       w.grad = torch.tensor(gradient, dtype=torch.float64)
 *       optimizer.step(); print(w.tolist())
 *   print(optimizer.state[w])
 */
const recorded = [
  {
    call: 'AdamW(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)',
    name: 'adamw',
    settings: { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1 },
    weights: [
      [0.890000002, -1.8800000008, 0.3950000005],
      [0.9215026169670926, -1.7223815363525117, 0.18988953815241905],
      [0.9265460635265141, -1.7157706773962478, 0.15514987118400822],
      [0.9168379645607394, -1.692787418044088, 0.09751867797202164],
    ],
    states: [
      [0.0006999999999999965, -0.015999999999999986, 0.34379999999999994],
      [0.03922500000000003, 0.11831250000000008, 0.5894750000000004],
    ],
  },
  {
    call: 'AdamW(betas=(0.8, 0.999), eps=1e-3, weight_decay=0)',
    name: 'adamw',
    settings: { beta1: 0.8, beta2: 0.999, epsilon: 1e-3, weightDecay: 0 },
    weights: [
      [0.9001996007984032, -1.900079936051159, 0.40004997501249373],
      [0.9611120825265675, -1.790727719615796, 0.19967357330172875],
      [0.9721178468417739, -1.7973527696912888, 0.16867691404668533],
      [0.9702381195939853, -1.7969362164119727, 0.12133406521735965],
    ],
    states: [
      [0.005199999999999998, -0.001999999999999988, 0.5087999999999999],
      [0.0008731263122500008, 0.0026349109515625023, 0.013219770996000012],
    ],
  },
  {
    call: 'SGD()',
    name: 'sgd',
    settings: { momentum: 0 },
    weights: [
      [0.95, -1.875, 0.3],
      [1.0999999999999999, -1.9, -0.30000000000000004],
      [1.0999999999999999, -1.95, -0.275],
      [1.075, -1.925, -0.275],
    ],
    states: [],
  },
  {
    call: 'SGD(momentum=0.9, weight_decay=0.1)',
    name: 'sgd',
    settings: { momentum: 0.9, weightDecay: 0.1 },
    weights: [
      [0.94, -1.855, 0.295],
      [0.9632, -1.5819, -0.6799000000000002],
      [0.9636039999999999, -1.562543, -0.8708530000000002],
      [0.9296951599999999, -1.48707497, -1.2058598700000003],
    ],
    states: [[0.3390884, -0.7546803000000001, 3.3500687000000005]],
  },
  {
    call: 'SGD(momentum=0.9, nesterov=True, weight_decay=0.1)',
    name: 'sgd',
    settings: { momentum: 0.9, nesterov: true, weightDecay: 0.1 },
    weights: [
      [0.886, -1.7245, 0.11050000000000001],
      [1.040132, -1.471569, -1.365799],
      [1.035167446, -1.4978148695, -1.5019939345],
      [0.968424255326, -1.3923430730795, -1.7758991228445],
    ],
    states: [[0.34879462460000005, -0.72770719695, 3.21027919655]],
  },
]

function expectClose(ours: readonly (readonly number[])[], theirs: readonly (readonly number[])[]): void {
  expect(ours.length).toBe(theirs.length)
  for (const [row, values] of theirs.entries())
    for (const [column, value] of values.entries())
      expect(Math.abs(ours[row]![column]! - value), `${row}, ${column}`).toBeLessThan(1e-14)
}

describe('steps as torch takes them', () => {
  it.each(recorded)('$call', ({ name, settings, weights, states }) => {
    const result = train(makeOptimizer(name, settings), true)
    expectClose(result.weights, weights)
    expectClose(result.states, states)
  })
})

describe.each(optimizers.map((info) => [info.name]))('%s', (name) => {
  it('does not decay a region that is not decayed', () => {
    const strong = makeOptimizer(name, { weightDecay: 0.5 })
    const none = makeOptimizer(name, { weightDecay: 0 })
    expect(train(strong, false)).toEqual(train(none, true))
    expect(train(strong, true)).not.toEqual(train(none, true))
  })

  it('clips before all else', () => {
    const optimizer = makeOptimizer(name, { weightDecay: 0.5 })
    const halves = gradients.map((gradient) => gradient.map((value) => value / 2))
    const clipped = train(optimizer, true, 0.5)
    const whole = gradients.splice(0, gradients.length, ...halves)
    const expected = train(optimizer, true, 1)
    gradients.splice(0, gradients.length, ...whole)
    expect(clipped).toEqual(expected)
  })

  it('is elementwise, so that it can be one loop', () => {
    for (const dtype of ['f32', 'f64'] as const) {
      const graph = makeOptimizer(name).build({ elements: 5, dtype, decay: true })
      for (const node of graph.nodes) {
        expect(node.op === 'fill' || ruleOf(node.op).elementwise, node.op).toBe(true)
        for (const output of node.outputs) {
          const { type } = graph.values[output]!
          expect(type.dtype).toBe(dtype)
          expect([[], [5]]).toContainEqual(type.shape)
        }
      }
    }
  })

  it('has the inputs and outputs it says', () => {
    const optimizer = makeOptimizer(name)
    const graph = optimizer.build({ elements: 5, dtype: 'f32', decay: true })
    const named = (kind: string): string[] =>
      graph.inputs.filter((input) => input.kind === kind).map((input) => input.name)
    const states = optimizer.states.map((state) => state.name)
    expect(named('parameter')).toEqual(['w'])
    expect(named('cotangent')).toEqual(['g'])
    expect(named('state')).toEqual(states)
    expect(named('scalar').sort()).toEqual([...optimizer.scalars].sort())
    expect(graph.outputs.map((output) => output.name)).toEqual(['w', ...states])
    expect(['learningRate', 'clipFactor', ...Object.keys(optimizer.optimizerScalars(1))]).toEqual(
      optimizer.scalars,
    )
  })

  it('is the same graph for the same settings', () => {
    const hash = (decay: boolean): string =>
      canonicalHash(makeOptimizer(name, { weightDecay: 0.1 }).build({ elements: 5, dtype: 'f32', decay }))
    expect(hash(true)).toBe(hash(true))
    expect(hash(true)).not.toBe(hash(false))
  })
})

describe('adamw', () => {
  it('needs few operations for an element', () => {
    const graph = makeOptimizer('adamw').build({ elements: 5, dtype: 'f32', decay: true })
    const work = graph.nodes.filter((node) => graph.values[node.outputs[0]!]!.type.shape.length > 0)
    expect(work.length).toBeLessThanOrEqual(15)
  })

  it('corrects the first step to the gradient itself', () => {
    // m / (1 - beta1) = g and v / (1 - beta2) = g²: the step is the learning rate times the sign.
    const { weights } = train(makeOptimizer('adamw', { weightDecay: 0, epsilon: 1e-300 }), true)
    expectClose([weights[0]!], [[0.9, -1.9, 0.4]])
  })

  it('names its states in checkpoints', () => {
    const names = makeOptimizer('adamw').states.map((state) => state.checkpointName('h.0.ln_1.bias'))
    expect(names).toEqual(['adam.m.h.0.ln_1.bias', 'adam.v.h.0.ln_1.bias'])
  })
})

describe('makeOptimizer', () => {
  it('fills in defaults', () => {
    expect(makeOptimizer('adamw', { beta2: 0.99 }).settings).toEqual({
      beta1: 0.9,
      beta2: 0.99,
      epsilon: 1e-8,
      weightDecay: 0.1,
    })
    expect(makeOptimizer('sgd', { momentum: 0 }).states).toEqual([])
  })

  it.each<[string, Record<string, unknown>, string, RegExp]>([
    ['adam', {}, 'OPTIMIZER_UNKNOWN', /adamw/],
    ['adamw', { beta3: 1 }, 'OPTIMIZER_SETTING', /beta1/],
    ['adamw', { beta1: 1 }, 'OPTIMIZER_SETTING', /at least 0 and below 1/],
    ['adamw', { beta1: '0.9' }, 'OPTIMIZER_SETTING', /a number/],
    ['adamw', { epsilon: 0 }, 'OPTIMIZER_SETTING', /above 0/],
    ['adamw', { weightDecay: Number.NaN }, 'OPTIMIZER_SETTING', /a number/],
    ['sgd', { nesterov: 1 }, 'OPTIMIZER_SETTING', /true or false/],
    ['sgd', { nesterov: true, momentum: 0 }, 'OPTIMIZER_SETTING', /momentum/],
  ])('%s %j is refused', (name, settings, code, hint) => {
    expect(() => makeOptimizer(name, settings)).toThrow(
      expect.objectContaining({ code, hint: expect.stringMatching(hint) }),
    )
  })

  it('counts steps from 1', () => {
    expect(() => makeOptimizer('adamw').optimizerScalars(0)).toThrow('internal')
  })
})
