import { elementCount } from '../../graph/index.ts'
import { overlap } from '../accesses.ts'
import type { GraphTask, Operand, PackEntry, Region, Role } from '../types.ts'
import type { Finding, VerifyContext } from './finding.ts'
import type { Run } from './findingAt.ts'
import { blockShift, gradientOf, splitStageBuffer } from './naming.ts'

/** A tensor of a task's graph and where in a pack it lies. */
interface Placed {
  readonly name: string
  readonly offset: number
  readonly elements: number
}

/**
 * What is wrong with the places that a run's task takes parameters from and puts gradients to: each is the entry of its
 * name. Where stages share the task, names differ by the number of their blocks, by as much for all.
 */
export function packMismatches(role: Role, task: GraphTask, run: Run, isShared: boolean): string[] {
  const problems: string[] = []
  let shift: number | undefined = isShared ? undefined : 0
  const place = (operand: Operand, tensors: readonly Placed[]): void => {
    const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
    for (const { name, offset, elements } of tensors) {
      const entry = buffer?.pack?.find((candidate) => candidate.offset === offset)
      if (entry === undefined || elementCount(entry.shape) !== elements) {
        problems.push(
          `has ${name} at element ${offset} of ${buffer?.name}, where no tensor of its size begins`,
        )
        continue
      }
      const found = blockShift(name, entry.name)
      if (found === 'any') continue
      shift ??= found
      if (found === undefined || found !== shift)
        problems.push(`has ${name} at element ${offset} of ${buffer?.name}, where ${entry.name} is`)
    }
  }
  const { inputs, outputs, values } = task.graph
  task.reads.forEach((port, index) => {
    if (port.kind !== 'pack') return
    const tensors = port.entries.map(({ input, offset }): Placed => {
      const { name, value } = inputs[input]!
      return { name, offset, elements: elementCount(values[value]!.type.shape) }
    })
    place(run.reads[index]!, tensors)
  })
  task.writes.forEach((port, index) => {
    if (port.kind !== 'pack') return
    const dense = port.entries.map(({ output, offset }): Placed => {
      const { name, value } = outputs[output]!
      return { name: gradientOf(name) ?? name, offset, elements: elementCount(values[value]!.type.shape) }
    })
    const rows = port.rows.map(({ values: output, offset, rows: count, rowElements }): Placed => {
      const { name } = outputs[output]!
      return { name: gradientOf(name) ?? name, offset, elements: count * rowElements }
    })
    place(run.writes[index]!, [...dense, ...rows])
    const regions = [...dense, ...rows].map(({ offset, elements }) => ({
      start: offset,
      end: offset + elements,
    }))
    const isCleared = (at: number): boolean => port.rows[at - dense.length]?.clears === true
    regions.forEach((region, at) => {
      const isAgain = regions.slice(0, at).some((other) => overlap(region, other))
      if (isAgain && (at < dense.length || isCleared(at)))
        problems.push(`sets element ${region.start} of its gradients over another part of them`)
    })
  })
  return problems
}

/** Gradients and optimizer states of a stage lie as its parameters do: an update takes the same elements of all. */
export function checkPackLayouts({ roles }: VerifyContext): Finding[] {
  return roles.flatMap(({ role, ranks }) =>
    role.buffers.flatMap((buffer): Finding[] => {
      const at = splitStageBuffer(buffer.name)
      const parameters = role.buffers.find(({ name, pack }) => name === `w${at?.stage}` && pack !== undefined)
      if (at === undefined || parameters === undefined || buffer.pack === undefined) return []
      const index = buffer.pack.findIndex((entry, place) => !isSame(at.base, entry, parameters.pack![place]))
      const entry = buffer.pack[index]
      if (entry === undefined && buffer.pack.length === parameters.pack!.length) return []
      const what = entry === undefined ? 'fewer tensors' : `${entry.name} at element ${entry.offset}`
      return [
        {
          code: 'PACK_LAYOUT',
          message: `${buffer.name} of ${role.name} has ${what}, unlike ${parameters.name}`,
          fix: 'list the tensors of both in one order, with the same shapes, offsets and owners',
          ranks,
          places: [],
        },
      ]
    }),
  )
}

/** Of `m1`, entry `adam.m.wte.weight` is that of parameter `wte.weight`; gradients have the parameter's own name. */
function isSame(base: string, entry: PackEntry, parameter: PackEntry | undefined): boolean {
  if (parameter === undefined || entry.offset !== parameter.offset || entry.owned !== parameter.owned)
    return false
  if (entry.shape.join() !== parameter.shape.join()) return false
  if (base === 'w' || base === 'g') return entry.name === parameter.name
  const prefix = entry.name.endsWith(`.${parameter.name}`)
    ? entry.name.slice(0, -parameter.name.length - 1)
    : undefined
  return prefix?.split('.').includes(base) === true
}

/** Every tensor is owned by the ranks of one stage: that one counts, saves and gives it. */
export function checkOwners({ roles }: VerifyContext): Finding[] {
  const held = new Map<string, { readonly owners: Set<number>; readonly torn: Set<number> }>()
  for (const { role } of roles)
    for (const buffer of role.buffers)
      for (const { name, owned } of buffer.pack ?? []) {
        const key = `${buffer.state === true ? 'state' : 'gradient of'} ${name}`
        const entry = held.get(key) ?? { owners: new Set(), torn: new Set() }
        held.set(key, entry)
        entry[owned ? 'owners' : 'torn'].add(role.pipeline)
      }
  return [...held].flatMap(([what, { owners, torn }]): Finding[] => {
    const [first] = owners
    if (owners.size === 1 && !torn.has(first!)) return []
    const ranks = roles.filter(({ role }) => owners.has(role.pipeline)).flatMap((view) => view.ranks)
    return [
      {
        code: 'STATE_OWNER',
        message:
          owners.size === 0
            ? `nobody owns ${what}`
            : owners.size === 1
              ? `some ranks at pipeline=${first} own ${what}, others there do not`
              : `${what} is owned at pipeline coordinates ${[...owners].join(' and ')}`,
        fix: 'let one of the stages that hold it own it',
        ranks,
        places: [],
      },
    ]
  })
}

export function entryRegion({ offset, shape }: PackEntry): Region {
  return { start: offset, end: offset + elementCount(shape) }
}
