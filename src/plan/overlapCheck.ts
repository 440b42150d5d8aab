import { nearestWorking } from '../base/index.ts'
import type { LayoutSettings } from '../layout/index.ts'
import { tensorSize } from './factorRanks.ts'
import type { Report } from './resolve.ts'
import type { PlanDocument } from './types.ts'

/**
 * Refuses chunks that no collective along `tensor` could be cut into. `samples` are those of a micro-batch on a replica.
 */
export function checkOverlap(
  { mesh }: PlanDocument,
  { tensor, sequence: isCut, overlap, zigzag }: LayoutSettings,
  { samples, sequence }: { readonly samples: number; readonly sequence: number },
  bad: Report,
): undefined {
  if (overlap === 1 || tensor === null) return
  const path = ['layout', 'overlap']
  if (tensor === 'optimus')
    return bad(
      'PLAN_LAYOUT',
      path,
      'products of optimus go by panels already, and have no collective beside them that could be cut',
      'leave layout.overlap out',
    )
  if (tensor !== 'megatron') return
  const perRank = sequence / mesh.context
  const runs = isCut ? perRank / tensorSize(mesh.tensor) / (zigzag ? 2 : 1) : samples * perRank
  const holds = (chunks: number): boolean => runs % chunks === 0 || (isCut && samples % chunks === 0)
  if (holds(overlap)) return
  bad(
    'PLAN_LAYOUT',
    path,
    isCut
      ? `neither ${samples} samples nor ${runs} tokens of a rank divide into ${overlap} chunks`
      : `the ${runs} tokens of a rank do not divide into ${overlap} chunks`,
    `layout.overlap ${nearestWorking(overlap, holds, Math.max(runs, samples)).join(' or ')} would work`,
  )
}
