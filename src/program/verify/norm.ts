import { firstGap, operandRows, overlap } from '../accesses.ts'
import { isReplicaAxis } from '../mesh.ts'
import type { BufferSpec, PackEntry, Region, Role } from '../types.ts'
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
 * first of its replicas, which all hold the same.
 */
export function checkNorm(context: VerifyContext): Finding[] {
  const { program, roles } = context
  const pipelines = new Set(
    roles.flatMap(({ role }) => (role.buffers.some(isGradients) ? [role.pipeline] : [])),
  )
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
      const shares = role.buffers[buffer]!.shard?.axes ?? []
      if (!isOwner(context, role, role.buffers[role.values[owner.value]?.buffer ?? -1], shares))
        findings.push(
          findingAt(
            context,
            view,
            index,
            'NORM_OWNER',
            'is not counted by exactly one of the replicas',
            'take a constant that is 1 where every replica axis is 0',
          ),
        )
    }
    role.buffers.forEach((buffer, index) => {
      if (isGradients(buffer)) findings.push(...checkCounted(view, buffer, counted.get(index) ?? []))
      if (buffer.name === sum)
        findings.push(...undeclared(program, view, buffer.name, buffer.sumOver, pipelines))
    })
    return findings
  })
}

/** 1 on one replica of each shard of a stage, 0 on the others. */
function isOwner(
  { program }: VerifyContext,
  role: Role,
  buffer: BufferSpec | undefined,
  shares: readonly string[],
): boolean {
  const axes = program.mesh.submeshes[role.pipeline]!.filter(
    ({ name }) => !shares.includes(name) && isReplicaAxis(name),
  )
  const zeros = buffer?.constant?.isZero
  if (zeros === undefined) return false
  return (
    axes.every(({ name, size }) => size === 1 || zeros.includes(name)) &&
    zeros.every((zero) => !isReplicaAxis(zero) || axes.some(({ name }) => name === zero))
  )
}

function checkCounted(
  view: RoleView,
  buffer: BufferSpec,
  counted: readonly (Region & { readonly place: InstructionPlace })[],
): Finding[] {
  const { name, pack } = buffer
  const [missing, twice, foreign]: [PackEntry[], PackEntry[], PackEntry[]] = [[], [], []]
  for (const entry of pack!) {
    const rows = heldRegion(buffer, entry)
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
