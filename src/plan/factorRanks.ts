import { greatestCommonDivisor } from '../base/index.ts'
import { type FactoredAxes, type MeshAxis, type RefinedAxes, refineAxes } from '../layout/index.ts'
import type { PlanMesh, PlanTensor } from './types.ts'

/** Ranks along `tensor`. */
export function tensorSize(tensor: PlanTensor): number {
  return Object.values(tensorAxes(tensor)).reduce((product, size) => product * size, 1)
}

/** Axes that `tensor` is made of, outermost first, by the name of the part: `''` where it is one. */
export function tensorAxes(tensor: PlanTensor): Readonly<Record<string, number>> {
  if (typeof tensor === 'number') return { '': tensor }
  if ('row' in tensor) return { row: tensor.row, column: tensor.column }
  return { x: tensor.x, y: tensor.y, z: tensor.z }
}

/** Ranks that share the work of a replica. */
export function modelRanks({ context, tensor }: PlanMesh): number {
  return context * tensorSize(tensor)
}

/** How heads of keys and values are dealt to ranks: those that have others, times those that have the same. */
export interface HeadParts {
  readonly kv: number
  readonly group: number
}

/** For as many heads over as many ranks, one of which must divide the other. */
export function headParts(heads: number, ranks: number): HeadParts {
  const kv = greatestCommonDivisor(heads, ranks)
  return { kv, group: ranks / kv }
}

/** Parts of the axes over which attention cuts its heads. */
export interface HeadCut {
  readonly tensor: HeadParts
  /** Only where heads are cut over `context` too. */
  readonly context?: HeadParts
}

/**
 * How the ranks of an actor are factored: data x context x tensor, and for experts expertData x expert x expertTensor, of which the
 * first follows. `heads` says where `tensor` (in one row) and `context` are split by heads of keys and values.
 *
 * @throws MeshwrightError `LAYOUT_FACTORISATION`, as `refineAxes`; ranks are a multiple of those of an expert
 */
export function factorRanks(mesh: PlanMesh, replicas: number, heads: HeadCut | undefined): FactoredAxes {
  const dense: MeshAxis[] = [{ name: 'data', size: replicas }]
  /** What axes of the plan are made of, by the names in `dense`. */
  const made: Record<string, string[]> = { data: ['data'], context: [], tensor: [] }
  const add = (axis: string, part: string, size: number): void => {
    const name = part === '' ? axis : `${axis}.${part}`
    dense.push({ name, size })
    made[axis]!.push(name)
    made[name] = [name]
  }
  const addSplit = (axis: string, size: number, parts: HeadParts | undefined): void => {
    if (parts !== undefined && parts.kv > 1 && parts.group > 1) {
      add(axis, 'kv', parts.kv)
      add(axis, 'group', parts.group)
      return
    }
    add(axis, '', size)
    if (parts === undefined) return
    made[`${axis}.kv`] = parts.group === 1 ? [axis] : []
    made[`${axis}.group`] = parts.group === 1 ? [] : [axis]
  }
  addSplit('context', mesh.context, heads?.context)
  if (typeof mesh.tensor === 'number') addSplit('tensor', mesh.tensor, heads?.tensor)
  else for (const [part, size] of Object.entries(tensorAxes(mesh.tensor))) add('tensor', part, size)

  const ranks = replicas * modelRanks(mesh)
  const refined = refineAxes(dense, [
    { name: 'expertData', size: ranks / (mesh.expert * mesh.expertTensor) },
    { name: 'expert', size: mesh.expert },
    { name: 'expertTensor', size: mesh.expertTensor },
  ])
  const isReplica = replicaTest(refined)
  const parts = Object.entries(made).map(
    ([name, from]) => [name, from.flatMap((axis) => refined.dense[axis]!)] as const,
  )
  return {
    mesh: { axes: refined.axes.filter(({ name }) => !isReplica(name)) },
    replicas: refined.axes.filter(({ name }) => isReplica(name)),
    parts: { ...Object.fromEntries(parts), ...refined.experts },
  }
}

/** Data axes along which experts are the same. */
function replicaTest({ dense, experts }: RefinedAxes): (name: string) => boolean {
  const names = new Set(dense['data']!.filter((axis) => experts['expertData']!.includes(axis)))
  return (name) => names.has(name)
}
