import { firstGap, operandRows, overlap } from '../accesses.ts'
import { isReplicaAxis } from '../mesh.ts'
import { blockAxes } from '../shards.ts'
import type { BufferSpec, MeshAxis, PackEntry, Program, Region, Role } from '../types.ts'
import {
  type Finding,
  type InstructionPlace,
  isSumOfSquares,
  type RoleView,
  type VerifyContext,
} from './finding.ts'
import { findingAt, type Run } from './findingAt.ts'
import { isGradients } from './outside.ts'
import { heldRegion } from './packs.ts'
import { undeclared } from './terms.ts'

const sum = 'sumOfSquares'

/** Whether the program clips by a norm. */
export function hasNorm({ program }: VerifyContext): boolean {
  return program.tasks.some(
    (task) => task.kind === 'graph' && task.graph.inputs.some(({ name }) => name === sum),
  )
}

/**
 * The global norm counts the square of every gradient element once: on the stage that owns the tensor, and there on the
 * first of the ranks that hold the same: where every axis is 0 but those along which it is dealt out, as a shard or a block.
 */
export function checkNorm(context: VerifyContext): Finding[] {
  const { program, roles } = context
  const pipelines = new Set(
    roles.flatMap(({ role }) => (role.buffers.some(isGradients) ? [role.pipeline] : [])),
  )
  const blocks = summedAxes(context)
  return roles.flatMap((view) => {
    const { role } = view
    const findings: Finding[] = []
    const counted = new Map<number, (Region & { readonly place: InstructionPlace })[]>()
    for (const index of view.of('run')) {
      if (!isSumOfSquares(program.tasks[view.code.target[index]!])) continue
      const instruction = view.instruction(index) as Run
      const [source, owner] = instruction.reads
      const buffer = source === undefined ? undefined : role.values[source.value]?.buffer
      if (source === undefined || owner === undefined || buffer === undefined) continue
      const place = { role: view.index, instruction: index }
      counted.set(buffer, [...(counted.get(buffer) ?? []), { ...operandRows(role, source), place }])
      if (!isGradients(role.buffers[buffer]!))
        findings.push(
          findingAt(context, view, index, 'NORM_REPEATED', 'counts what is no gradient', 'remove it'),
        )
      const sumOver = role.buffers[role.values[instruction.writes[0]?.value ?? -1]?.buffer ?? -1]?.sumOver
      const owned = role.buffers[role.values[owner.value]?.buffer ?? -1]
      const stray = unowned(
        context,
        role,
        role.buffers[buffer]!,
        operandRows(role, source),
        owned,
        sumOver,
        blocks,
      )
      if (stray !== undefined)
        findings.push(
          findingAt(
            context,
            view,
            index,
            'NORM_OWNER',
            `does not count ${stray} on exactly one of the ranks that hold the same of it and add their squares`,
            'take a constant that is 1 where every axis is 0 but those that deal it out',
          ),
        )
    }
    role.buffers.forEach((buffer, index) => {
      if (isGradients(buffer)) findings.push(...checkCounted(program, view, buffer, counted.get(index) ?? []))
      if (buffer.name === sum)
        findings.push(
          ...undeclared(program, view, buffer.name, buffer.sumOver, pipelines, {
            needed: (axis) => isReplicaAxis(axis) || blocks.has(axis),
            excluded: [],
          }),
        )
    })
    return findings
  })
}

/** Axes along which somebody has blocks of gradients: the sum goes along them and all replicas. */
function summedAxes({ roles }: VerifyContext): Set<string> {
  return new Set(
    roles.flatMap(({ role }) =>
      role.buffers.flatMap((buffer) => (isGradients(buffer) ? (buffer.pack ?? []).flatMap(blockAxes) : [])),
    ),
  )
}

/** The first tensor of `rows` that a sum does not get once; undefined where it gets all of them. */
function unowned(
  { program }: VerifyContext,
  role: Role,
  buffer: BufferSpec,
  rows: Region,
  owner: BufferSpec | undefined,
  sumOver: string | undefined,
  blocks: ReadonlySet<string>,
): string | undefined {
  const submesh = program.mesh.submeshes[role.pipeline]!
  // Over replicas and blocks the sum goes in any case: that it does is asked of its group.
  const group = program.groups.find(({ name }) => name === sumOver)?.axes ?? []
  const summed = new Set([
    ...group,
    ...submesh.flatMap(({ name }) => (isReplicaAxis(name) ? [name] : [])),
    ...blocks,
  ])
  const sound = new Set<string>()
  for (const entry of buffer.pack ?? []) {
    if (!overlap(heldRegion(buffer, entry, submesh), rows)) continue
    const dealt = [...(buffer.shard?.axes ?? []), ...blockAxes(entry)]
    if (sound.has(dealt.join())) continue
    if (!isOwner(submesh, owner, dealt, summed)) return entry.name
    sound.add(dealt.join())
  }
  return undefined
}

/**
 * Whether a constant is 1 on one of the ranks that hold the same elements and add what they count: those that differ along
 * `summed` axes over which the elements are not `dealt`.
 */
function isOwner(
  submesh: readonly MeshAxis[],
  owner: BufferSpec | undefined,
  dealt: readonly string[],
  summed: ReadonlySet<string>,
): boolean {
  const constant = owner?.constant
  if (constant === undefined || !('isZero' in constant)) return false
  const { isZero } = constant
  const isOnce = ({ name, size }: MeshAxis): boolean => {
    if (size === 1) return true
    if (dealt.includes(name)) return summed.has(name) && !isZero.includes(name)
    return summed.has(name) === isZero.includes(name)
  }
  return submesh.every(isOnce) && isZero.every((zero) => submesh.some(({ name }) => name === zero))
}

function checkCounted(
  { mesh }: Program,
  view: RoleView,
  buffer: BufferSpec,
  counted: readonly (Region & { readonly place: InstructionPlace })[],
): Finding[] {
  const { name, pack } = buffer
  const [missing, twice, foreign]: [PackEntry[], PackEntry[], PackEntry[]] = [[], [], []]
  for (const entry of pack!) {
    const rows = heldRegion(buffer, entry, mesh.submeshes[view.role.pipeline] ?? [])
    const parts = counted.filter((region) => overlap(region, rows))
    if (!entry.owned) foreign.push(...(parts.length > 0 ? [entry] : []))
    else if (parts.some((region, index) => parts.slice(0, index).some((other) => overlap(region, other))))
      twice.push(entry)
    else if (firstGap(parts, rows) !== undefined) missing.push(entry)
  }
  const complain = (code: string, entries: readonly PackEntry[], what: string, fix: string): Finding[] => {
    const [first] = entries
    if (first === undefined) return []
    const more = entries.length === 1 ? '' : ` and ${entries.length - 1} more`
    return [
      {
        code,
        message: `${first.name}${more} in ${name} of ${view.role.name}: ${what}`,
        fix,
        ranks: view.ranks,
        places: counted.map(({ place }) => place),
      },
    ]
  }
  return [
    ...complain('NORM_MISSING', missing, 'the norm does not count all of it', 'add its sumSquares'),
    ...complain('NORM_REPEATED', twice, 'the norm counts it twice', 'count it once'),
    ...complain('NORM_REPEATED', foreign, 'another stage owns and counts it', 'count it there alone'),
  ]
}
