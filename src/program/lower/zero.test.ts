import { describe, expect, it } from 'vitest'
import { compilePlan } from '../../../test/support/trainingCase.ts'
import { bytesPerElement, elementCount } from '../../graph/index.ts'
import {
  bufferKind,
  collectivePayloadBytes,
  collectiveWireBytes,
  coordinatesOf,
  groupRanks,
  lowerPlan,
  type Program,
  parseProgram,
  printProgram,
  type Role,
  readInstructions,
  verifyProgram,
} from '../index.ts'

interface Case {
  readonly pipeline?: number
  readonly data: number
  readonly schedule?: unknown
  readonly samples?: number
  readonly microbatches?: number
  readonly zero: unknown
  readonly model?: string
}

function programOf({
  pipeline = 1,
  data,
  schedule = '1f1b',
  microbatches = 1,
  zero,
  model,
  ...rest
}: Case): Program {
  const { plan, model: built } = compilePlan({
    meshwright: 1,
    model: model ?? 'gpt:layers=4,hidden=8,heads=2,context=8,vocab=31,tied=false',
    mesh: { pipeline, data },
    schedule,
    batch: { samples: rest.samples ?? data * microbatches, microbatches },
    dtype: 'f64',
    clip: null,
    zero,
  })
  return lowerPlan(plan, built)
}

/** Of rank 0: calls and elements that a ring puts on the wire, by operation, of packs of parameters and gradients. */
function traffic(program: Program): Record<string, { calls: number; elements: number }> {
  const role = program.roles[0]!
  const found: Record<string, { calls: number; elements: number }> = {}
  for (const instruction of readInstructions(role.code)) {
    if (instruction.kind !== 'collective') continue
    const { operation, parts, group } = instruction
    if (parts.every(({ source }) => bufferOf(role, source.value).pack === undefined)) continue
    const members = groupRanks(program.mesh, coordinatesOf(program.mesh, 0), program.groups[group]!).length
    const payload = collectivePayloadBytes(role, instruction)
    const known = found[operation] ?? { calls: 0, elements: 0 }
    found[operation] = {
      calls: known.calls + 1,
      elements: known.elements + collectiveWireBytes(operation, payload, members) / bytesPerElement.f64,
    }
  }
  return found
}

function bufferOf(role: Role, value: number): Role['buffers'][number] {
  return role.buffers[role.values[value]!.buffer]!
}

/** Elements of rank 0 in buffers of that name, without the number of the stage. */
function elementsOf(program: Program, base: string): number {
  return program.roles[0]!.buffers.filter(({ name }) => new RegExp(`^${base}\\d+$`).test(name)).reduce(
    (sum, { shape }) => sum + elementCount(shape),
    0,
  )
}

const ranks = 4
/** Parameters of the model, with what pads its segments to a multiple of the ranks. */
const psi = elementsOf(programOf({ data: ranks, zero: 3 }), 'p')

describe('ZeRO', () => {
  // papers/18: 2, 2, 2 and 3 times the parameters, times (N - 1) / N; with one micro-batch, so that nothing repeats.
  it.each([
    [0, { allReduce: 2 }],
    [1, { allGather: 1, reduceScatter: 1 }],
    [2, { allGather: 1, reduceScatter: 1 }],
    [3, { allGather: 2, reduceScatter: 1 }],
  ] as const)('stage %i puts the textbook elements on the wire', (zero, times) => {
    const program = programOf({ data: ranks, zero })
    const parameters = zero === 0 ? elementsOf(program, 'w') : psi
    const found = Object.entries(traffic(program)).map(([operation, { elements }]) => [operation, elements])
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(
        Object.entries(times).map(([operation, factor]) => [
          operation,
          (factor * parameters * (ranks - 1)) / ranks,
        ]),
      ),
    )
  })

  // papers/18, with parameters, gradients and each moment of one size: state that lives on, and gradients between.
  it.each([1, 2, 3])('stage %i keeps a share of parameters, moments and gradients', (zero) => {
    const program = programOf({ data: ranks, zero })
    for (const base of ['w', 'm', 'v', 'g']) expect(elementsOf(program, base)).toBe(psi / ranks)
  })

  it('repeats its reductions for each micro-batch from stage 2 on, and its gathers from stage 3 on', () => {
    const of = (zero: number): Record<string, number> => {
      const found = traffic(programOf({ pipeline: 2, data: 2, microbatches: 3, zero }))
      return Object.fromEntries(Object.entries(found).map(([operation, { calls }]) => [operation, calls]))
    }
    expect(of(1)).toEqual({ allGather: 1, reduceScatter: 1 })
    expect(of(2)).toEqual({ allGather: 1, reduceScatter: 3 })
    expect(of(3)).toEqual({ allGather: 6, reduceScatter: 3 })
  })

  // papers/01: 2 V B / U gathers, 2 V - 1 a unit when the last forward chunk is kept, V B / U reductions.
  it.each([
    { pipeline: 2, chunks: 2, unit: 2, microbatches: 4, keepLast: false },
    { pipeline: 2, chunks: 2, unit: 2, microbatches: 4, keepLast: true },
    { pipeline: 2, chunks: 1, unit: 3, microbatches: 6, keepLast: false },
    { pipeline: 1, chunks: 4, unit: 2, microbatches: 4, keepLast: true },
  ])('gathers once for each unit, chunk and direction: %o', (shape) => {
    const { pipeline, chunks, unit, microbatches, keepLast } = shape
    const schedule = { name: 'zeropp', chunks, unit }
    const zero = { stage: 3, keepLast }
    const program = programOf({ pipeline, data: 2, microbatches, schedule, zero })
    const found = traffic(program)
    const units = microbatches / unit
    expect(found['allGather']!.calls).toBe((keepLast ? 2 * chunks - 1 : 2 * chunks) * units)
    expect(found['reduceScatter']!.calls).toBe(chunks * units)
    // Stages of unequal size pass: at no time more than two chunks are gathered, the next one while this one is used.
    expect(gatheredAtOnce(program)).toBeLessThanOrEqual(2)
    // What binds while ranks run side by side are the slots: two for what is gathered, one for gradients.
    expect(windowSlots(program)).toBeLessThanOrEqual(3)
  })

  // papers/01: 36 B h^2 / U elements a layer, times (D - 1) / D; to the element, with what is not of order h^2.
  it.each([
    { data: 4, unit: 2, microbatches: 6 },
    { data: 2, unit: 4, microbatches: 4 },
  ])('moves 36 B h^2 / U elements a layer: %o', ({ data, unit, microbatches }) => {
    const hidden = 128
    const elements = (layers: number): number => {
      const model = `gpt:layers=${layers},hidden=${hidden},heads=2,context=8,vocab=31,tied=false`
      const schedule = { name: 'zeropp', chunks: 2, unit }
      const found = traffic(programOf({ data, microbatches, schedule, zero: 3, model }))
      return found['allGather']!.elements + found['reduceScatter']!.elements
    }
    const layer = (elements(6) - elements(2)) / 4
    expect(layer).toBe((3 * (12 * hidden ** 2 + 13 * hidden) * microbatches * (data - 1)) / unit / data)
    const known = (36 * hidden ** 2 * microbatches * (data - 1)) / unit / data
    expect(layer / known).toBeCloseTo(1 + 13 / 12 / hidden, 9)
  })

  it('says of shards that copies share what they are for', () => {
    const zero = { stage: 3, shards: 2, replicas: 'sharded' }
    const { buffers } = programOf({ data: 4, zero }).roles[0]!
    const kindOf = (wanted: string): string => bufferKind(buffers.find(({ name }) => name === wanted)!)
    expect(['p0', 'q0', 'g0', 'G0', 'a0'].map(kindOf)).toEqual([
      'gatheredParameters',
      'gatheredParameters',
      'gradients',
      'gradients',
      'gradients',
    ])
  })

  it('holds one gathered chunk without prefetch, two with it', () => {
    const shape = { data: 2, microbatches: 2, schedule: { name: 'zeropp', chunks: 4, unit: 2 } }
    expect(gatheredAtOnce(programOf({ ...shape, zero: { stage: 3, prefetch: false } }))).toBe(1)
    expect(gatheredAtOnce(programOf({ ...shape, zero: { stage: 3 } }))).toBe(2)
  })

  it.each([
    { pipeline: 2, data: 2, zero: 1 },
    { pipeline: 2, data: 2, zero: 2 },
    { pipeline: 2, data: 3, zero: 3 },
    { pipeline: 2, data: 4, zero: { stage: 3, shards: 2 } },
    { pipeline: 2, data: 4, zero: { stage: 3, shards: 2, replicas: 'sharded' } },
    { pipeline: 2, data: 4, zero: { stage: 1, shards: 2, replicas: 'sharded' } },
    { pipeline: 2, data: 2, zero: 3, schedule: { name: 'zeropp', chunks: 2, unit: 2, backward: 'split' } },
    { pipeline: 2, data: 2, zero: 3, schedule: 'zb-v' },
    // Looked at by representatives.
    { pipeline: 2, data: 128, zero: 3 },
    { pipeline: 2, data: 128, zero: { stage: 3, shards: 8, replicas: 'sharded' } },
  ])('verifies, and reads back: %o', (one) => {
    const model = 'gpt:layers=6,hidden=6,heads=1,context=8,vocab=31,tied=true'
    const program = programOf({ ...one, microbatches: 4, model })
    expect(verifyProgram(program).findings).toEqual([])
    const text = printProgram(program, { full: true })
    expect(printProgram(parseProgram(text), { full: true })).toBe(text)
  })
})

/** Slots of all buffers of windows of rank 0: they share them. */
function windowSlots(program: Program): number {
  const { buffers, pools } = program.roles[0]!
  const shared = new Set(buffers.flatMap(({ windowed, pool }) => (windowed === true ? [pool] : [])))
  expect(shared.size).toBe(1)
  return pools[[...shared][0]!]!.slots
}

/** Most gathered packs of rank 0 that are live at once, from their gather to their free. */
function gatheredAtOnce(program: Program): number {
  const role = program.roles[0]!
  const isGathered = (value: number): boolean => /^p\d+$/.test(bufferOf(role, value).name)
  let live = 0
  let most = 0
  for (const instruction of readInstructions(role.code)) {
    if (instruction.kind === 'collective' && isGathered(instruction.parts[0]!.result.value)) live++
    if (instruction.kind === 'free') live -= instruction.values.filter(isGathered).length
    most = Math.max(most, live)
  }
  return most
}
