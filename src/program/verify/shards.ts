import { operandRows } from '../accesses.ts'
import { packBases } from '../packNames.ts'
import { formatOperand } from '../text/operands.ts'
import type { BufferSpec, Operand, Region, Role } from '../types.ts'
import type { Finding, VerifyContext } from './finding.ts'
import { findingAt } from './findingAt.ts'
import { splitPackBuffer } from './naming.ts'
import { entryRegion, localSegments } from './packs.ts'

/** One end of a part of a collective between packs. */
interface End {
  readonly buffer: BufferSpec
  readonly rows: Region
  readonly operand: Operand
}

/**
 * What is gathered of shards is what was dealt out: an all-gather makes a pack of its shards, a reduce-scatter shards of
 * a pack, of the same stage, segment by segment, along the axes that the shards are dealt over. Parameters are gathered
 * as the step finds them. A mistake here trains on another model's parameters and hangs nobody.
 */
export function checkShards(context: VerifyContext): Finding[] {
  const { program, roles } = context
  return roles.flatMap((view) => [
    ...checkDealt(context, view.role, view.ranks),
    ...[...view.each('collective')].flatMap(([index, instruction]): Finding[] => {
      const { operation, group, parts } = instruction
      if (operation !== 'allGather' && operation !== 'reduceScatter') return []
      const axes = program.groups[group]?.axes ?? []
      const problems = new Set<string>()
      for (const { source, result } of parts) {
        const ends = [source, result].map((operand) => endOf(view.role, operand))
        const [from, to] = ends
        if (from === undefined || to === undefined) continue
        const [small, large] = operation === 'allGather' ? [from, to] : [to, from]
        const problem = dealtOtherwise(small, large, axes)
        if (problem !== undefined) problems.add(problem)
        if (operation === 'allGather')
          for (const text of staleness(view.role, small, large)) problems.add(text)
      }
      return [...problems].map((problem) =>
        findingAt(
          context,
          view,
          index,
          'SHARD_MISMATCH',
          problem,
          'name the same segment of both ends, and the group of the axes over which it is dealt',
        ),
      )
    }),
  ])
}

/** Shards are dealt over axes of the rank's sub-mesh in segments that cover the pack and divide evenly. */
function checkDealt({ program }: VerifyContext, role: Role, ranks: readonly number[]): Finding[] {
  const submesh = program.mesh.submeshes[role.pipeline] ?? []
  return role.buffers.flatMap((buffer): Finding[] => {
    const { name, shard, shape, pack = [] } = buffer
    if (shard === undefined) return []
    const sizes = shard.axes.map((axis) => submesh.find((candidate) => candidate.name === axis)?.size)
    const count = sizes.reduce<number>((product, size) => product * (size ?? 0), 1)
    let reached = 0
    const isCut = shard.segments.every(({ start, end }) => {
      const follows = start === reached && end > start && count > 0 && (end - start) % count === 0
      reached = end
      return follows
    })
    const isHeld = pack.every((entry) => {
      const { start, end } = entryRegion(entry, submesh)
      return shard.segments.some((segment) => segment.start <= start && end <= segment.end)
    })
    if (isCut && isHeld && shape.length === 1 && shape[0]! * count === reached) return []
    return [
      {
        code: 'SHARD_MISMATCH',
        message: `${name} of ${role.name} is not ${reached} elements in ${count} equal shards`,
        fix: 'deal whole tensors out in segments that divide by the ranks along the axes',
        ranks,
        places: [],
      },
    ]
  })
}

function endOf(role: Role, operand: Operand): End | undefined {
  const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
  return buffer?.pack === undefined ? undefined : { buffer, rows: operandRows(role, operand), operand }
}

function dealtOtherwise(small: End, large: End, axes: readonly string[]): string | undefined {
  const [part, whole] = [small.buffer, large.buffer]
  const homes = [part, whole].map(({ name }) => splitPackBuffer(name)?.home)
  if (homes[0] !== homes[1]) return `takes ${part.name} and ${whole.name} for one`
  const wanted = [...(whole.shard?.axes ?? []), ...axes]
  if (part.shard === undefined || part.shard.axes.join() !== wanted.join())
    return `goes between ${whole.name} and ${part.name}, which is not dealt out over ${axes.join(', ')}`
  const smallSegments = localSegments(part)
  const index = smallSegments.findIndex(
    ({ start, end }) => start === small.rows.start && end === small.rows.end,
  )
  const segment = part.shard.segments[index]
  if (segment === undefined)
    return `takes elements ${small.rows.start} to ${small.rows.end} of ${part.name}, no segment`
  const region = whole.shard === undefined ? segment : localSegments(whole)[index]
  return region?.start === large.rows.start && region.end === large.rows.end
    ? undefined
    : `takes another segment of ${whole.name} than of ${part.name}`
}

/** What gathered parameters are made of: the state as the step finds it, or what was gathered of that. */
function staleness(role: Role, small: End, large: End): string[] {
  const bases = [small, large].map(({ buffer }) => splitPackBuffer(buffer.name)?.base ?? '')
  const { parameters, copyShard, gathered } = packBases
  const isParameters =
    (bases[0] === parameters || bases[0] === copyShard) && (bases[1] === gathered || bases[1] === copyShard)
  const { step } = role.values[small.operand.value]!
  if (isParameters && (bases[0] !== parameters || step === 0)) return []
  return [`gathers ${formatOperand(role, small.operand)} into ${formatOperand(role, large.operand)}`]
}
