import { describe, expect, it } from 'vitest'
import { tinyPlan } from '../../../test/support/programs.ts'
import { interpretGraph } from '../../graph/index.ts'
import { lowerCompute } from './compute.ts'
import { Dag, type RunNode } from './dag.ts'
import type { StageInfo } from './packs.ts'
import { stageInfos } from './stages.ts'
import { declareStorage, wholeStorage } from './storage.ts'
import { lowerClip } from './update.ts'

/** Stages of a tiny model, where the last one holds no parameter of its own. */
function stagesOf(): { stages: StageInfo[]; dag: Dag } {
  const { plan, model } = tinyPlan({ stages: 2, microbatches: 1 })
  const stages = stageInfos(plan, model, null).map((info): StageInfo => {
    const packs = info.packs.map((pack) => ({
      ...pack,
      segments: pack.segments.map((segment) => ({ ...segment, owned: info.stage === 0 })),
    }))
    return { ...info, packs }
  })
  const dag = new Dag(2)
  for (const info of stages) declareStorage(dag, stages, info, { dtype: 'f64', gradients: true })
  lowerCompute(dag, stages, plan.schedule, wholeStorage, 'gradient')
  return { stages, dag }
}

describe('the gradient norm', () => {
  it('takes a zero from a stage that owns no parameter', () => {
    const { stages, dag } = stagesOf()
    lowerClip(dag, stages, 1)
    const writers = dag.nodes.filter(
      (node): node is RunNode =>
        node.kind === 'run' &&
        dag.accesses.of(node.id).some(({ buffer, kind }) => buffer === 'sumOfSquares' && kind !== 'read'),
    )
    const [zero, ...more] = writers.filter(({ actor }) => actor === 1)
    expect(more).toEqual([])
    expect(dag.accesses.of(zero!.id)).toEqual([{ buffer: 'sumOfSquares', kind: 'write' }])
    if (zero?.task.kind !== 'graph') throw new Error('no graph')
    expect(interpretGraph(zero.task.graph, new Map()).get('sumOfSquares')?.data[0]).toBe(0)
  })

  it('is the same on all actors', () => {
    const { stages, dag } = stagesOf()
    lowerClip(dag, stages, 1)
    const sum = dag.nodes.find((node) => node.kind === 'collective')
    expect(sum?.kind === 'collective' && sum.members.map(({ actor }) => actor)).toEqual([0, 1])
    const clips = dag.nodes.filter((node) => node.kind === 'run' && node.task.name === 'clip')
    expect(clips).toHaveLength(2)
  })
})
