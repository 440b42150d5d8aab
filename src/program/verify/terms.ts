import { submeshRanks } from '../mesh.ts'
import type { BufferSpec, Group, Program, ProgramMesh, Role } from '../types.ts'
import { type Finding, isOncePerStep, isSumOfSquares, type RoleView, type VerifyContext } from './finding.ts'
import type { Run } from './findingAt.ts'

/** A tensor that some rank adds up over micro-batches. */
interface Accumulated {
  readonly view: RoleView
  readonly buffer: BufferSpec
  readonly name: string
  /** Group that its terms are said to lie on. */
  readonly declared: string | undefined
}

/**
 * Every rank adds up the gradients and losses of its own samples: what it holds is a term of the sum over all ranks that
 * hold a tensor of that name. This finds those ranks from what runs do, and holds the program's word against it; sums
 * are then held to that word (see `checkSums`).
 */
export function checkTerms(context: VerifyContext): Finding[] {
  const { program, roles } = context
  const accumulated = roles.flatMap((view) => accumulatedOf(program, view))
  const holders = new Map<string, Set<number>>()
  for (const { name, view } of accumulated)
    holders.set(name, (holders.get(name) ?? new Set()).add(view.role.pipeline))
  const found = accumulated.flatMap(({ view, buffer, name, declared }) =>
    undeclared(program, view, `${name} of ${buffer.name}`, declared, holders.get(name)!).map((finding) => ({
      key: `${view.index} ${buffer.name} ${declared}`,
      finding,
    })),
  )
  return [
    // One for each buffer is enough to say.
    ...found.flatMap(({ key, finding }, index) =>
      found.findIndex((other) => other.key === key) === index ? [finding] : [],
    ),
    ...roles.flatMap((view) => groundless(program, view)),
  ]
}

/** A finding where the terms of a sum lie on all ranks at `pipelines` and `declared` is another group. */
export function undeclared(
  { mesh, groups }: Program,
  view: RoleView,
  what: string,
  declared: string | undefined,
  pipelines: ReadonlySet<number>,
): Finding[] {
  const places = [...pipelines].sort((a, b) => a - b)
  const count = places.reduce((sum, pipeline) => sum + submeshRanks(mesh, pipeline).count, 0)
  const group = groups.find(({ name }) => name === declared)
  if (declared === undefined ? count === 1 : group !== undefined && spans(mesh, group, pipelines)) return []
  const where = `all ${count} ranks at pipeline=${places.join(', ')}`
  return [
    {
      code: 'SUM_UNDECLARED',
      message: `${what} on ${view.role.name} is one of the terms that ${where} hold, and ${declared === undefined ? 'said to be whole' : `said to be summed over ${declared}`}`,
      fix: 'say "sum over" the group of exactly these ranks, and reduce it there',
      ranks: view.ranks,
      places: [],
    },
  ]
}

/** Whether a group has exactly the ranks at `pipelines`, in one piece. */
function spans({ submeshes }: ProgramMesh, { axes, pipelines }: Group, wanted: ReadonlySet<number>): boolean {
  const isWhole = [...wanted].every((pipeline) =>
    submeshes[pipeline]!.every(({ name, size }) => size === 1 || axes.includes(name)),
  )
  const members = axes.includes('pipeline') ? (pipelines ?? submeshes.map((_, index) => index)) : undefined
  if (members === undefined) return isWhole && wanted.size === 1
  return isWhole && new Set(members).size === wanted.size && members.every((pipeline) => wanted.has(pipeline))
}

/** What actions write beside the values of their micro-batch. */
function accumulatedOf({ tasks }: Program, view: RoleView): Accumulated[] {
  const { role } = view
  const buffers = new Set<number>()
  for (const instruction of view.instructions) {
    if (instruction.kind !== 'run' || !isOfMicrobatch(role, instruction)) continue
    if (tasks[instruction.task]?.kind !== 'graph') continue
    for (const { value } of instruction.writes) {
      const instance = role.values[value]
      if (instance !== undefined && instance.microbatch === undefined && instance.step === undefined)
        buffers.add(instance.buffer)
    }
  }
  return [...buffers].flatMap((index): Accumulated[] => {
    const buffer = role.buffers[index]
    if (buffer === undefined) return []
    if (buffer.pack === undefined) return [{ view, buffer, name: buffer.name, declared: buffer.sumOver }]
    return buffer.pack.map(({ name, sumOver }) => ({
      view,
      buffer,
      name,
      declared: sumOver ?? buffer.sumOver,
    }))
  })
}

/** Values said to be terms of a sum that every rank has the whole of: made by runs that add up nothing of their own. */
function groundless({ tasks }: Program, view: RoleView): Finding[] {
  const { role } = view
  const whole = new Set<number>()
  for (const instruction of view.instructions) {
    if (instruction.kind === 'move' || instruction.kind === 'free' || instruction.kind === 'collective')
      continue
    const isTerm = (value: number): boolean =>
      instruction.kind === 'run' &&
      (isSumOfSquares(tasks[instruction.task]) ||
        (isOfMicrobatch(role, instruction) && role.values[value]?.microbatch === undefined))
    const written =
      instruction.kind === 'run'
        ? instruction.writes
        : instruction.parts.filter(({ direction }) => direction === 'recv')
    for (const { value } of written) if (!isTerm(value)) whole.add(role.values[value]?.buffer ?? -1)
  }
  return role.buffers.flatMap((buffer, index): Finding[] => {
    const said = buffer.sumOver !== undefined || buffer.pack?.some(({ sumOver }) => sumOver !== undefined)
    const isTwice = buffer.sumOver !== undefined && buffer.pack?.some(({ sumOver }) => sumOver !== undefined)
    if (said !== true || (isTwice !== true && !whole.has(index) && buffer.state !== true)) return []
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
function isOfMicrobatch({ actions }: Role, { action: index }: Run): boolean {
  const action = index === undefined ? undefined : actions[index]
  return action !== undefined && !isOncePerStep(action)
}
