import { describe, expect, it } from 'vitest'
import { modelFromShortName } from '../models/index.ts'
import { PlanError, parsePlan, type ResolvedPlan, resolvePlan } from './index.ts'

const model = modelFromShortName('gpt:layers=4,hidden=16,heads=4,context=64')

function resolve(text: string): ResolvedPlan {
  const plan = parsePlan(`meshwright: 1\nbatch: { samples: 24, microbatches: 2 }\n${text}`)
  return resolvePlan(plan, model)
}

function problem(text: string): string {
  try {
    resolve(text)
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    return error.problems.map(({ code, at, message }) => `${code} ${at.path ?? ''} ${message}`).join('\n')
  }
  throw new Error('not refused')
}

describe('ZeRO of a plan', () => {
  it('shards over all replicas, or over groups of them', () => {
    expect(resolve('mesh: { data: 4 }\nzero: 3').zero).toMatchObject({ stage: 3, shards: 4, copies: 1 })
    expect(resolve('mesh: { data: 4 }\nzero: { stage: 2, shards: 2 }').zero).toMatchObject({
      shards: 2,
      copies: 2,
      shardsCopies: false,
    })
    expect(resolve('mesh: { data: 4 }\nzero: 0').zero).toBeNull()
  })

  it('has windows of the step, or of what its stage shares out', () => {
    const windows = (zero: number): unknown => {
      const { gather, reduce } = resolve(`mesh: { data: 2 }\nzero: ${zero}`).zero!
      return [gather, reduce]
    }
    expect([1, 2, 3].map(windows)).toEqual([
      ['step', 'step'],
      ['step', 'action'],
      ['action', 'action'],
    ])
  })

  it('has windows of units where the schedule has units, whoever wrote it', () => {
    const windows = (schedule: string): unknown => {
      const { gather, reduce } = resolve(`mesh: { data: 2 }\nzero: 3\nschedule: ${schedule}`).zero!
      return [gather, reduce]
    }
    const own = (actions: string): string =>
      `{ text: "schedule 1\\nstages 1 on 0\\nmicrobatches 2\\nactor 0: ${actions}" }`
    expect(windows(own('0F0 0F1 0B0 0B1'))).toEqual(['action', 'action'])
    expect(windows(own('0F0/0 0F1/0 0B0/0 0B1/0'))).toEqual(['unit', 'unit'])
    expect(windows('{ name: zeropp, chunks: 2 }')).toEqual(['unit', 'unit'])
    expect(windows('gpipe')).toEqual(['action', 'action'])
  })

  it.each([
    ['mesh: { data: 1 }\nzero: 3', 'there is one replica'],
    ['mesh: { data: 4 }\nzero: { stage: 0, shards: 2 }', 'zero.shards is given, but stage 0'],
    ['mesh: { data: 4 }\nzero: { stage: 3, shards: 3 }', '4 replicas do not divide into copies of 3 ranks'],
    ['mesh: { data: 4 }\nzero: { stage: 3, replicas: sharded }', 'there is one copy'],
    ['mesh: { data: 4 }\nzero: { stage: 2, gather: action }', 'stage 2 keeps parameters whole for the step'],
    ['mesh: { data: 4 }\nzero: { stage: 1, reduce: unit }', 'stage 1 keeps gradients whole for the step'],
    ['mesh: { pipeline: 2, data: [2, 1] }\nzero: 1', 'actors have 2, 1 replicas'],
  ])('refuses %j', (text, message) => {
    expect(problem(text)).toContain('PLAN_ZERO')
    expect(problem(text)).toContain(message)
  })
})
