import { elementCount } from '../../graph/index.ts'
import { axisSize } from '../mesh.ts'
import { blockAxes, localShape, shardCount } from '../shards.ts'
import type { BufferSpec, MeshAxis, PackEntry } from '../types.ts'
import type { Finding, RoleView, VerifyContext } from './finding.ts'
import { entryRegion } from './packs.ts'

/**
 * What a rank has by its place follows from axes that there are. Blocks cut dims evenly along axes of their own, so that
 * those of the ranks along them are the whole tensor, each element once; all roles of a stage see it cut alike.
 */
export function checkBlocks(context: VerifyContext): Finding[] {
  const { program, roles } = context
  const findings = roles.flatMap((view) => {
    const submesh = program.mesh.submeshes[view.role.pipeline] ?? []
    return view.role.buffers.flatMap((buffer) => [
      ...checkConstant(view, buffer, submesh),
      ...checkPack(view, buffer, submesh),
    ])
  })
  // What is wrong with a block by itself would be said again of each pair.
  return findings.length > 0 ? findings : checkWholes(roles)
}

function finding(view: RoleView, code: string, message: string, fix: string): Finding {
  return { code, message, fix, ranks: view.ranks, places: [] }
}

function checkConstant(view: RoleView, buffer: BufferSpec, submesh: readonly MeshAxis[]): Finding[] {
  const { name, constant, dtype, shape } = buffer
  if (constant === undefined) return []
  const isStart = 'start' in constant
  const axes = isStart ? constant.start.axes : constant.isZero
  const known = submesh.map((axis) => axis.name)
  const unknown = axes.filter((axis) => !known.includes(axis) && (isStart || axis !== 'pipeline'))
  const problem =
    unknown.length > 0
      ? `follows from ${unknown.join(', ')}, and the mesh has ${known.join(', ')} there`
      : isStart && (dtype !== 'i32' || shape.length > 0)
        ? `is a place, and ${dtype}[${shape.join(', ')}]`
        : undefined
  if (problem === undefined) return []
  return [
    finding(
      view,
      'CONSTANT_PLACE',
      `the constant ${name} of ${view.role.name} ${problem}`,
      'name axes of the sub-mesh; what begins at a place is an i32 scalar',
    ),
  ]
}

function checkPack(view: RoleView, buffer: BufferSpec, submesh: readonly MeshAxis[]): Finding[] {
  const { pack = [], shard } = buffer
  if (pack.every(({ block }) => block === undefined)) return []
  const findings = pack.flatMap((entry) => checkBlock(view, buffer, entry, submesh))
  if (findings.length > 0) return findings
  // Of a shard the segments are the pack.
  const elements = elementCount(buffer.shape) * (shard === undefined ? 1 : shardCount(shard, submesh))
  let reached = 0
  for (const entry of pack.toSorted((a, b) => a.offset - b.offset)) {
    const { start, end } = entryRegion(entry, submesh)
    if (start < reached || end > elements)
      return [
        finding(
          view,
          'BLOCK_SIZE',
          `${described(entry, submesh)} takes elements ${start} to ${end} of ${buffer.name} of ${view.role.name}, ${end > elements ? `which has ${elements}` : 'some of which are of another tensor'}`,
          'give every tensor of the pack as many elements as its block has',
        ),
      ]
    reached = end
  }
  return []
}

function checkBlock(
  view: RoleView,
  { name, shard }: BufferSpec,
  entry: PackEntry,
  submesh: readonly MeshAxis[],
): Finding[] {
  const { block, shape } = entry
  if (block === undefined) return []
  const where = `in ${name} of ${view.role.name}`
  const axes = blockAxes(entry)
  const unknown = axes.filter((axis) => !submesh.some((candidate) => candidate.name === axis))
  const twice = axes.filter(
    (axis, index) => axes.indexOf(axis) < index || shard?.axes.includes(axis) === true,
  )
  const wrong =
    unknown.length > 0
      ? `${unknown.join(', ')}, which the mesh does not have there`
      : twice.length > 0
        ? `${twice.join(', ')} twice`
        : undefined
  if (wrong !== undefined)
    return [
      finding(
        view,
        'BLOCK_AXIS',
        `${entry.name} ${where} is cut along ${wrong}`,
        'cut each dim along axes of the sub-mesh, each of which deals out one thing of a tensor',
      ),
    ]
  const odd = localShape(entry, submesh).findIndex((size) => !Number.isInteger(size))
  const row = elementCount(block.shape.slice(1))
  const [whole, seen] = [elementCount(shape), elementCount(block.shape)]
  const isSame = block.axes.length === block.shape.length && seen >= whole
  const isPadded = seen === whole || (row > 0 && whole % row === 0 && block.shape.length > 0)
  if (odd < 0 && isSame && isPadded) return []
  return [
    finding(
      view,
      'BLOCK_SIZE',
      odd >= 0
        ? `${described(entry, submesh)} ${where}: ${block.shape[odd]} does not divide by ${cutsOf(entry, odd, submesh)}`
        : `${described(entry, submesh)} ${where} is seen as [${block.shape.join(', ')}]: ${seen} elements of ${whole}, in rows of ${row}`,
      'cut dims into equal parts, of as many elements as the tensor has or more rows of the first dim',
    ),
  ]
}

/** `h.0.mlp.weight [8, 16] in blocks [8, 16/tensor=2]` */
function described(entry: PackEntry, submesh: readonly MeshAxis[]): string {
  const { name, shape, block } = entry
  if (block === undefined) return `${name} [${shape.join(', ')}]`
  const dims = block.shape.map((size, dim) => [size, ...sizesOf(block.axes[dim] ?? [], submesh)].join('/'))
  return `${name} [${shape.join(', ')}] in blocks [${dims.join(', ')}]`
}

function sizesOf(axes: readonly string[], submesh: readonly MeshAxis[]): string[] {
  return axes.map((axis) => `${axis}=${axisSize(submesh, axis)}`)
}

function cutsOf({ block }: PackEntry, dim: number, submesh: readonly MeshAxis[]): string {
  return sizesOf(block?.axes[dim] ?? [], submesh).join(', ')
}

/** Roles that keep a tensor agree on what the whole of it is, and those of one stage on how it is cut. */
function checkWholes(roles: readonly RoleView[]): Finding[] {
  interface Held {
    readonly view: RoleView
    readonly entry: PackEntry
  }
  const held = new Map<string, Held[]>()
  for (const view of roles)
    for (const { state, pack } of view.role.buffers)
      if (state === true)
        for (const entry of pack ?? []) {
          const known = held.get(entry.name)
          if (known === undefined) held.set(entry.name, [{ view, entry }])
          else known.push({ view, entry })
        }
  const isCut = [...held.values()].some((all) => all.some(({ entry }) => entry.block !== undefined))
  if (!isCut) return []
  return [...held].flatMap(([name, all]): Finding[] => {
    const [first] = all
    const other = all.find(
      ({ view, entry }) =>
        entry.shape.join() !== first!.entry.shape.join() ||
        all.some(
          (one) =>
            one.view.role.pipeline === view.role.pipeline &&
            JSON.stringify(one.entry.block) !== JSON.stringify(entry.block),
        ),
    )
    if (other !== undefined)
      return [
        finding(
          other.view,
          'BLOCK_WHOLE',
          `${name} of ${other.view.role.name} is not the same tensor, cut as elsewhere: its blocks are no whole`,
          'give all that keep it one shape, and all ranks of a stage one way to cut it',
        ),
      ]
    const lacking = roles.find(({ role }) => {
      const here = all.filter(({ view }) => view.role.pipeline === role.pipeline)
      const axis = role.where?.axis
      return (
        axis !== undefined &&
        here.some(({ entry }) => blockAxes(entry).includes(axis)) &&
        !here.some(({ view }) => view.role === role)
      )
    })
    if (lacking === undefined) return []
    return [
      finding(
        lacking,
        'BLOCK_WHOLE',
        `${name} is cut along ${lacking.role.where!.axis}, and ${lacking.role.name} does not keep its block`,
        'give every rank along the axis its block',
      ),
    ]
  })
}
