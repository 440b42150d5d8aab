import { elementCount } from '../../graph/index.ts'
import { operandRows, overlap } from '../accesses.ts'
import { isPackBase, packBases } from '../packNames.ts'
import { localElements } from '../shards.ts'
import type { BufferSpec, GraphTask, MeshAxis, Operand, PackEntry, Region, Role } from '../types.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'
import type { Run } from './findingAt.ts'
import { blockShift, gradientOf, packBuffer, splitPackBuffer, withoutBlock } from './naming.ts'
import type { Homes } from './operandRules.ts'

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
export function packMismatches(
  role: Role,
  submesh: readonly MeshAxis[],
  task: GraphTask,
  run: Run,
  isShared: boolean,
): string[] {
  const problems: string[] = []
  let shift: number | undefined = isShared ? undefined : 0
  const place = (operand: Operand, tensors: readonly Placed[]): void => {
    const buffer = role.buffers[role.values[operand.value]?.buffer ?? -1]
    const { start } = operandRows(role, operand)
    for (const { name, offset: inOperand, elements } of tensors) {
      const offset = start + inOperand
      const entry = buffer?.pack?.find((candidate) => candidate.offset === offset)
      if (entry === undefined || localElements(entry, submesh) !== elements) {
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
  const placed = new Set(
    task.writes.flatMap((port) =>
      port.kind === 'pack'
        ? [
            ...port.entries.map(({ output }) => output),
            ...port.rows.flatMap(({ values, ids }) => ('output' in ids ? [values, ids.output] : [values])),
          ]
        : [],
    ),
  )
  outputs.forEach(({ name }, index) => {
    if (/^g\..*(?<!\.ids)$/.test(name) && !placed.has(index)) problems.push(`adds ${name} to nothing`)
  })
  return problems
}

/**
 * Where a stage finds parameters: in its own packs, or where another stage of its actor keeps them, for an actor has one
 * copy. A task that stages share has the block of one of them in its names, so that a block's parameter may be in any pack
 * of the stage that has one of the same kind.
 */
export function homesOf({ buffers }: Role, stage: number): Homes {
  const others = new Map<string, string>()
  const own: { readonly home: string; readonly names: ReadonlySet<string>; readonly kinds: Set<string> }[] =
    []
  for (const { name, pack = [] } of buffers) {
    const at = splitPackBuffer(name)
    if (at?.base !== packBases.parameters) continue
    if (at.stage !== stage) for (const entry of pack) others.set(entry.name, at.home)
    else {
      const names = new Set(pack.map((entry) => entry.name))
      own.push({ home: at.home, names, kinds: new Set([...names].map(withoutBlock)) })
    }
  }
  const sharded = new Set(buffers.flatMap(({ name, shard }) => (shard === undefined ? [] : [name])))
  const first = [own[0]?.home ?? String(stage)]
  return {
    of: (parameter) => {
      const exact = own.filter(({ names }) => names.has(parameter))
      if (exact.length > 0) return exact.map(({ home }) => home)
      const kind = withoutBlock(parameter)
      const other = kind === parameter ? others.get(parameter) : undefined
      if (other !== undefined) return [other]
      const alike = own.filter(({ kinds }) => kind !== parameter && kinds.has(kind))
      return alike.length > 0 ? alike.map(({ home }) => home) : first
    },
    isSharded: (home) => sharded.has(packBuffer(packBases.parameters, home)),
  }
}

/** Gradients and optimizer states of a stage lie as its parameters do: an update takes the same elements of all. */
export function checkPackLayouts({ roles }: VerifyContext): Finding[] {
  return roles.flatMap(({ role, ranks }) => {
    const packs = role.buffers.filter(({ pack }) => pack !== undefined)
    const byName = new Map(packs.map((buffer) => [buffer.name, buffer]))
    return packs.flatMap((buffer): Finding[] => {
      const at = splitPackBuffer(buffer.name)
      const parameters = byName.get(packBuffer(packBases.parameters, at?.home ?? ''))
      if (at === undefined || parameters === undefined || buffer.pack === undefined) return []
      const states = buffer.state === true || at.base === packBases.gradients
      if (states && shardKey(buffer) !== shardKey(parameters))
        return [
          {
            code: 'PACK_LAYOUT',
            message: `${buffer.name} of ${role.name} is not dealt out as ${parameters.name} is`,
            fix: 'give both the same shards',
            ranks,
            places: [],
          },
        ]
      const index = buffer.pack.findIndex((entry, place) => !isSame(at.base, entry, parameters.pack![place]))
      const entry = buffer.pack[index]
      if (entry === undefined && buffer.pack.length === parameters.pack!.length) return []
      const what = entry === undefined ? 'fewer tensors' : `${entry.name} at element ${entry.offset}`
      return [
        {
          code: 'PACK_LAYOUT',
          message: `${buffer.name} of ${role.name} has ${what}, unlike ${parameters.name}`,
          fix: 'list the tensors of both in one order, with the same shapes, blocks, offsets and owners',
          ranks,
          places: [],
        },
      ]
    })
  })
}

function shardKey({ shard }: BufferSpec): string {
  return shard === undefined ? '' : JSON.stringify([shard.axes, shard.segments])
}

/** Of `m1`, entry `adam.m.wte.weight` is that of parameter `wte.weight`; gradients have the parameter's own name. */
function isSame(base: string, entry: PackEntry, parameter: PackEntry | undefined): boolean {
  if (parameter === undefined || entry.offset !== parameter.offset || entry.owned !== parameter.owned)
    return false
  if (entry.shape.join() !== parameter.shape.join()) return false
  if (JSON.stringify(entry.block) !== JSON.stringify(parameter.block)) return false
  if (isPackBase(base)) return entry.name === parameter.name
  const prefix = entry.name.endsWith(`.${parameter.name}`)
    ? entry.name.slice(0, -parameter.name.length - 1)
    : undefined
  return prefix?.split('.').includes(base) === true
}

/** Every tensor is owned by the ranks of one stage, which counts, saves and gives it; no actor has two copies. */
export function checkOwners(context: VerifyContext): Finding[] {
  return [...checkOneOwner(context), ...context.roles.flatMap(copiesOf)]
}

/** Tensors of the state that a role keeps in several buffers: they would go different ways. */
function copiesOf({ role, ranks }: RoleView): Finding[] {
  const names = role.buffers.flatMap(({ state, pack }) =>
    state === true ? (pack ?? []).map(({ name }) => name) : [],
  )
  const met = new Set<string>()
  const twice = names.find((name) => met.has(name) || !met.add(name))
  if (twice === undefined) return []
  return [
    {
      code: 'STATE_OWNER',
      message: `${role.name} has several copies of ${twice}`,
      fix: 'let one stage of the actor keep it, and the others read it there',
      ranks,
      places: [],
    },
  ]
}

function checkOneOwner({ roles }: VerifyContext): Finding[] {
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

/** Where a pack has a tensor, or the rank's block of it. */
export function entryRegion(entry: PackEntry, submesh: readonly MeshAxis[]): Region {
  return { start: entry.offset, end: entry.offset + localElements(entry, submesh) }
}

/** The elements of its own in which a rank has something of an entry: all of it, or its block of the entry's segment. */
export function heldRegion(
  { shape, shard }: BufferSpec,
  entry: PackEntry,
  submesh: readonly MeshAxis[],
): Region {
  const region = entryRegion(entry, submesh)
  if (shard === undefined) return region
  const segments = localSegments({ shape, shard })
  const index = shard.segments.findIndex(({ start, end }) => start <= region.start && region.end <= end)
  return segments[index] ?? { start: 0, end: 0 }
}

/** Where the rank's blocks of the segments lie. */
export function localSegments({ shape, shard }: Pick<BufferSpec, 'shape' | 'shard'>): Region[] {
  if (shard === undefined) return [{ start: 0, end: elementCount(shape) }]
  const whole = shard.segments.reduce((sum, { start, end }) => sum + end - start, 0)
  const count = Math.max(1, whole / Math.max(1, elementCount(shape)))
  let at = 0
  return shard.segments.map(({ start, end }) => {
    const region = { start: at, end: at + (end - start) / count }
    at = region.end
    return region
  })
}
