import { columnAccess, visitColumnAccesses } from '../columnAccesses.ts'
import { isReplicaAxis } from '../mesh.ts'
import { blockAxes } from '../shards.ts'
import type { BufferSpec, Group, Program, ProgramMesh } from '../types.ts'
import { type Finding, isOncePerStep, isSumOfSquares, type RoleView, type VerifyContext } from './finding.ts'
import { absent } from './roleView.ts'

/** A tensor that some rank adds up over micro-batches. */
interface Accumulated {
  readonly view: RoleView
  readonly buffer: BufferSpec
  readonly name: string
  /** Group that its terms are said to lie on. */
  readonly declared: string | undefined
  /** Axes along which ranks have blocks of the tensor, each its own. */
  readonly apart: readonly string[]
}

/**
 * Every replica adds up the gradients and losses of its own samples: what it holds is a term of the sum over all replicas
 * that hold a tensor, or a block of a tensor, of that name. This finds those ranks from what runs do, and holds the program's word against it; sums
 * are then held to that word (see `checkSums`).
 */
export function checkTerms(context: VerifyContext): Finding[] {
  const { program, roles } = context
  const accumulated = roles.flatMap((view) => accumulatedOf(program, view))
  const holders = new Map<string, Set<number>>()
  for (const { name, view } of accumulated)
    holders.set(name, (holders.get(name) ?? new Set()).add(view.role.pipeline))
  const found = accumulated.flatMap(({ view, buffer, name, declared, apart }) =>
    undeclared(program, view, `${name} of ${buffer.name}`, declared, holders.get(name)!, {
      needed: (axis) => isReplicaAxis(axis) && !apart.includes(axis),
      excluded: apart,
    }).map((finding) => ({ key: `${view.index} ${buffer.name} ${declared}`, finding })),
  )
  return [
    // One for each buffer is enough to say.
    ...found.flatMap(({ key, finding }, index) =>
      found.findIndex((other) => other.key === key) === index ? [finding] : [],
    ),
    ...roles.flatMap((view) => groundless(program, view)),
  ]
}

/** On which ranks at a pipeline coordinate the terms of a sum lie. */
export interface TermAxes {
  /** Axes along which they must. */
  readonly needed: (axis: string) => boolean
  /** Axes along which they cannot: there ranks have different elements. Along all others they may. */
  readonly excluded: readonly string[]
}

/** A finding where the terms of a sum lie on all ranks at `pipelines`, as `over` says, and `declared` is another group. */
export function undeclared(
  { mesh, groups }: Program,
  view: RoleView,
  what: string,
  declared: string | undefined,
  pipelines: ReadonlySet<number>,
  over: TermAxes,
): Finding[] {
  const places = [...pipelines].sort((a, b) => a - b)
  const count = places.reduce((sum, pipeline) => {
    const sizes = mesh.submeshes[pipeline]!.map(({ name, size }) => (over.needed(name) ? size : 1))
    return sum + sizes.reduce((product, size) => product * size, 1)
  }, 0)
  const group = groups.find(({ name }) => name === declared)
  if (declared === undefined ? count === 1 : group !== undefined && spans(mesh, group, pipelines, over))
    return []
  const where = `all ${count} ranks at pipeline=${places.join(', ')}`
  const apart = over.excluded.filter((axis) => group?.axes.includes(axis))
  return [
    {
      code: 'SUM_UNDECLARED',
      message:
        apart.length > 0
          ? `${what} on ${view.role.name} is said to be summed over ${declared}, and ranks along ${apart.join(', ')} have different elements of it`
          : `${what} on ${view.role.name} is one of the terms that ${where} hold, and ${declared === undefined ? 'said to be whole' : `said to be summed over ${declared}`}`,
      fix: 'say "sum over" the group of exactly these ranks, and reduce it there',
      ranks: view.ranks,
      places: [],
    },
  ]
}

/** Whether a group has exactly the ranks at `pipelines` that must be in it, in one piece, and none that cannot be. */
function spans(
  mesh: ProgramMesh,
  group: Group,
  wanted: ReadonlySet<number>,
  { needed, excluded }: TermAxes,
): boolean {
  const { axes, pipelines } = group
  const isWhole = [...wanted].every((pipeline) =>
    mesh.submeshes[pipeline]!.every(
      ({ name, size }) => size === 1 || (axes.includes(name) ? !excluded.includes(name) : !needed(name)),
    ),
  )
  const members = axes.includes('pipeline')
    ? (pipelines ?? mesh.submeshes.map((_, index) => index))
    : undefined
  if (members === undefined) return isWhole && wanted.size === 1
  return isWhole && new Set(members).size === wanted.size && members.every((pipeline) => wanted.has(pipeline))
}

/** What actions write beside the values of their micro-batch. */
function accumulatedOf({ tasks }: Program, view: RoleView): Accumulated[] {
  const { role } = view
  const buffers = new Set<number>()
  const { code, values } = view
  const visit = (value: number, _region: number, access: number): void => {
    if (access !== columnAccess.read && values.microbatch[value] === absent && values.step[value] === absent)
      buffers.add(values.buffer[value]!)
  }
  for (const index of view.of('run'))
    if (isOfMicrobatch(view, index) && tasks[code.target[index]!]?.kind === 'graph')
      visitColumnAccesses(code, index, visit)
  return [...buffers].flatMap((index): Accumulated[] => {
    const buffer = role.buffers[index]
    if (buffer === undefined) return []
    if (buffer.pack === undefined)
      return [{ view, buffer, name: buffer.name, declared: buffer.sumOver, apart: [] }]
    return buffer.pack.map((entry) => ({
      view,
      buffer,
      name: entry.name,
      declared: entry.sumOver ?? buffer.sumOver,
      apart: blockAxes(entry),
    }))
  })
}

/**
 * Values said to be terms of a sum over replicas that every one has the whole of: made by runs that add up nothing of
 * their own. Along other axes any run may make terms: of a matrix product whose inner dim is cut, say.
 */
function groundless({ tasks, groups }: Program, view: RoleView): Finding[] {
  const { role } = view
  const whole = new Set<number>()
  const { code, values } = view
  let addsOwn = false
  const visit = (value: number, _region: number, access: number): void => {
    if (access === columnAccess.read || (addsOwn && (values.microbatch[value] ?? absent) === absent)) return
    whole.add(values.buffer[value] ?? -1)
  }
  for (const index of view.of('run')) {
    if (isSumOfSquares(tasks[code.target[index]!])) continue
    addsOwn = isOfMicrobatch(view, index)
    visitColumnAccesses(code, index, visit)
  }
  addsOwn = false
  for (const index of view.of('exchange')) visitColumnAccesses(code, index, visit)
  // Replicas share work too where tensors are cut over them: that of experts.
  const cutting = new Set(role.buffers.flatMap(({ pack }) => (pack ?? []).flatMap(blockAxes)))
  const sharesWork = (axis: string): boolean => !isReplicaAxis(axis) || cutting.has(axis)
  return role.buffers.flatMap((buffer, index): Finding[] => {
    const said = buffer.sumOver !== undefined || buffer.pack?.some(({ sumOver }) => sumOver !== undefined)
    const isTwice = buffer.sumOver !== undefined && buffer.pack?.some(({ sumOver }) => sumOver !== undefined)
    if (said !== true) return []
    const group = groups.find(({ name }) => name === buffer.sumOver)
    const isInside = group?.axes.some((axis) => axis !== 'pipeline' && sharesWork(axis)) === true
    if (isTwice !== true && buffer.state !== true && (isInside || !whole.has(index))) return []
    return [
      {
        code: 'SUM_WHOLE',
        message: `${buffer.name} of ${role.name} is said to be a term of a sum${isTwice === true ? ' twice' : ', and every rank has the whole of it'}`,
        fix: 'leave out "sum over"',
        ranks: view.ranks,
        places: [],
      },
    ]
  })
}

/** Whether a run does its stage's work for one micro-batch. */
function isOfMicrobatch(view: RoleView, run: number): boolean {
  const action = view.role.actions[view.actionOf(run)]
  return action !== undefined && !isOncePerStep(action)
}
