import {
  type Block,
  blockElements,
  blockShape,
  type Coordinates,
  coordinatesAt,
  fetchesOf,
  groupAlong,
  heldBlock,
  intersection,
  type Layout,
  type Mesh,
  meshSize,
  type PartialReduction,
  partOf,
  placeAlong,
  placeAt,
  replicaAxes,
  type Step,
} from '../../src/layout/index.ts'

type Data = Float64Array | Int32Array

/** A tensor as ranks hold it. */
export interface Spread {
  readonly shape: readonly number[]
  readonly mesh: Mesh
  readonly layout: Layout
  /** By place. */
  readonly blocks: readonly Data[]
}

function offset(block: Block, index: readonly number[]): number {
  let at = 0
  index.forEach((position, dim) => {
    at = at * (block.ends[dim]! - block.starts[dim]!) + position - block.starts[dim]!
  })
  return at
}

/** Calls back with every index of the block, in row-major order. */
function eachIndex(block: Block, visit: (index: readonly number[]) => void): void {
  const count = blockElements(block)
  const sizes = blockShape(block)
  for (let at = 0; at < count; at++) {
    const index = new Array<number>(sizes.length)
    let rest = at
    for (let dim = sizes.length - 1; dim >= 0; dim--) {
      index[dim] = block.starts[dim]! + (rest % sizes[dim]!)
      rest = Math.floor(rest / sizes[dim]!)
    }
    visit(index)
  }
}

/** Copies the elements of `part`, which must lie in both. */
function copyPart(part: Block, source: Data, from: Block, target: Data, to: Block): void {
  eachIndex(part, (index) => {
    const inside = index.every((at, dim) => at >= from.starts[dim]! && at < from.ends[dim]!)
    if (!inside) throw new Error('a rank is asked for what it does not hold')
    target[offset(to, index)] = source[offset(from, index)]!
  })
}

export function wholeBlock(shape: readonly number[]): Block {
  return { starts: shape.map(() => 0), ends: shape }
}

function empty(like: Data, count: number): Data {
  return like instanceof Int32Array ? new Int32Array(count) : new Float64Array(count)
}

const identities: Readonly<Record<PartialReduction, number>> = {
  sum: 0,
  mean: 0,
  max: Number.NEGATIVE_INFINITY,
}

/** Deals a whole tensor out; `random` (whole numbers) makes terms of it where the layout is partial. */
export function spread(
  whole: Data,
  shape: readonly number[],
  mesh: Mesh,
  layout: Layout,
  random: () => number,
): Spread {
  const axes = Object.keys(layout.partial)
  const blocks = Array.from({ length: meshSize(mesh) }, (_, place) => {
    const block = heldBlock(layout, shape, mesh, coordinatesAt(mesh, place))
    const data = empty(whole, blockElements(block))
    copyPart(block, whole, wholeBlock(shape), data, block)
    return data
  })
  if (axes.length > 0)
    blocks.forEach((data, place) => {
      const first = firstReplica(layout, mesh, place)
      const group = groupAlong(mesh, axes, coordinatesAt(mesh, place)).map((member) => placeAt(mesh, member))
      // Replicas come later than the first of them, and hold the same terms.
      if (first !== place) data.set(blocks[first]!)
      else if (Math.min(...group) === place)
        makeTerms(
          group.map((member) => blocks[member]!),
          mesh,
          layout,
          random,
        )
    })
  return { shape, mesh, layout, blocks }
}

function firstReplica(layout: Layout, mesh: Mesh, place: number): number {
  const zeros = Object.fromEntries(replicaAxes(layout, mesh).map((axis) => [axis, 0]))
  return placeAt(mesh, { ...coordinatesAt(mesh, place), ...zeros })
}

/** Turns equal blocks into terms whose reductions give what they were. */
function makeTerms(members: readonly Data[], mesh: Mesh, { partial }: Layout, random: () => number): void {
  const isMax = Object.values(partial).includes('max')
  // Over a sum the terms must add up to the value, over a mean to as often the value as it has terms.
  const repeats = mesh.axes.reduce((n, { name, size }) => (partial[name] === 'mean' ? n * size : n), 1)
  for (let at = 0; at < members[0]!.length; at++) {
    const value = members[0]![at]!
    if (isMax) {
      const largest = Math.abs(random()) % members.length
      members.forEach((data, index) => {
        if (index !== largest) data[at] = value - Math.abs(random())
      })
      continue
    }
    let rest = value * repeats
    members.forEach((data, index) => {
      data[at] = index === members.length - 1 ? rest : random()
      rest -= data[at]!
    })
  }
}

/** The whole tensor, from owners, with terms reduced; throws where ranks that should hold the same do not, beyond `tolerance`. */
export function collect({ shape, mesh, layout, blocks }: Spread, tolerance: number = 0): Data {
  const whole = empty(blocks[0]!, blockElements(wholeBlock(shape)))
  const written = new Uint8Array(whole.length)
  const axes = Object.keys(layout.partial)
  for (let place = 0; place < blocks.length; place++) {
    const own = coordinatesAt(mesh, place)
    const first = blocks[firstReplica(layout, mesh, place)]!
    blocks[place]!.forEach((value, at) => {
      if (value !== first[at] && !(Math.abs(value - first[at]!) <= tolerance))
        throw new Error(`replicas differ: ${value} and ${first[at]}`)
    })
    const group = groupAlong(mesh, axes, own).map((member) => blocks[placeAt(mesh, member)]!)
    const value = group.length === 1 ? group[0]! : reduceAll(group, mesh, layout)
    const block = heldBlock(layout, shape, mesh, own)
    if (value.length !== blockElements(block)) throw new Error('a block has another size')
    eachIndex(block, (index) => {
      const at = offset(wholeBlock(shape), index)
      const found = value[offset(block, index)]!
      whole[at] = found
      written[at] = 1
    })
  }
  if (written.includes(0)) throw new Error('elements that no rank holds')
  return whole
}

function reduceAll(members: readonly Data[], mesh: Mesh, { partial }: Layout): Data {
  const repeats = mesh.axes.reduce((n, { name, size }) => (partial[name] === 'mean' ? n * size : n), 1)
  const isMax = Object.values(partial).includes('max')
  return members[0]!.map((_, at) => {
    const values = members.map((data) => data[at]!)
    return isMax ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0) / repeats
  })
}

/** Makes one step; adds to `sent` the elements that each place puts on the wire. */
export function execute(step: Step, { shape, mesh, blocks }: Spread, sent: number[]): Spread {
  const before = (place: number): Block => heldBlock(step.before, shape, mesh, coordinatesAt(mesh, place))
  const after = (place: number): Block => heldBlock(step.after, shape, mesh, coordinatesAt(mesh, place))
  const result: Data[] = blocks.map((data, place) => empty(data, blockElements(after(place))))
  const groups = groupsOf(mesh, step.axes)
  switch (step.kind) {
    case 'slice':
      blocks.forEach((data, place) => {
        copyPart(after(place), data, before(place), result[place]!, after(place))
      })
      break
    case 'vary':
      return { shape, mesh, layout: step.after, blocks }
    case 'keepOne':
      blocks.forEach((data, place) => {
        const keeps = step.reduce === 'mean' || placeAlong(mesh, step.axes, coordinatesAt(mesh, place)) === 0
        if (keeps) result[place]!.set(data)
        else result[place]!.fill(identities[step.reduce])
      })
      break
    case 'allGather':
      for (const group of groups)
        ringGather(
          group,
          (member, origin) => {
            copyPart(before(origin), blocks[origin]!, before(origin), result[member]!, after(member))
            return blockElements(before(origin))
          },
          sent,
        )
      break
    case 'reduceScatter':
      for (const group of groups)
        ringScatter(
          group,
          group.map((place) => blocks[place]!.slice()),
          (index) => {
            const chunk = after(group[index]!)
            const offsets: number[] = []
            eachIndex(chunk, (at) => offsets.push(offset(before(group[index]!), at)))
            return offsets
          },
          step.reduce,
          sent,
          (index, values) => result[group[index]!]!.set(values),
        )
      break
    case 'allReduce':
      for (const group of groups) {
        const elements = blocks[group[0]!]!.length
        const chunkOf = (index: number): number[] => {
          const { start, end } = partOf({ start: 0, end: elements }, group.length, index)
          return Array.from({ length: end - start }, (_, at) => start + at)
        }
        const chunks: (readonly number[])[] = []
        ringScatter(
          group,
          group.map((place) => blocks[place]!.slice()),
          chunkOf,
          step.reduce,
          sent,
          (index, values) => {
            chunks[index] = values
          },
        )
        ringGather(
          group,
          (member, origin) => {
            const index = group.indexOf(origin)
            chunkOf(index).forEach((at, position) => {
              result[member]![at] = chunks[index]![position]!
            })
            return chunks[index]!.length
          },
          sent,
        )
      }
      break
    case 'allToAll':
      for (const group of groups)
        for (const from of group)
          for (const to of group) {
            const part = intersection(before(from), after(to))
            copyPart(part, blocks[from]!, before(from), result[to]!, after(to))
            if (from !== to) sent[from]! += blockElements(part)
          }
      break
    case 'permute':
    case 'exchange':
      for (let place = 0; place < blocks.length; place++)
        for (const fetch of fetchesOf(
          shape,
          mesh,
          step.before.dims,
          step.after.dims,
          coordinatesAt(mesh, place),
        )) {
          const holder = placeAt(mesh, fetch.holder)
          sameOutside(mesh, step.axes, fetch.holder, coordinatesAt(mesh, place))
          copyPart(fetch.block, blocks[holder]!, before(holder), result[place]!, after(place))
          if (holder !== place) sent[holder]! += blockElements(fetch.block)
        }
      break
  }
  return { shape, mesh, layout: step.after, blocks: result }
}

function sameOutside(mesh: Mesh, axes: readonly string[], left: Coordinates, right: Coordinates): void {
  for (const { name } of mesh.axes)
    if (!axes.includes(name) && left[name] !== right[name]) throw new Error(`a transfer along ${name}`)
}

function groupsOf(mesh: Mesh, axes: readonly string[]): number[][] {
  const groups: number[][] = []
  for (let place = 0; place < meshSize(mesh); place++) {
    const own = coordinatesAt(mesh, place)
    if (placeAlong(mesh, axes, own) === 0)
      groups.push(groupAlong(mesh, axes, own).map((member) => placeAt(mesh, member)))
  }
  return groups
}

/** Blocks go round hop by hop; `take` stores the block of `origin` at `member` and says how many elements it has. */
function ringGather(
  group: readonly number[],
  take: (member: number, origin: number) => number,
  sent: number[],
): void {
  for (const member of group) take(member, member)
  for (let hop = 0; hop < group.length - 1; hop++)
    group.forEach((from, index) => {
      const origin = group[(index - hop + group.length) % group.length]!
      sent[from]! += take(group[(index + 1) % group.length]!, origin)
    })
}

/** Chunk i starts at member i + 1 and goes round to member i, which ends with it. */
function ringScatter(
  group: readonly number[],
  held: readonly Data[],
  offsetsOf: (index: number) => number[],
  reduce: PartialReduction,
  sent: number[],
  done: (index: number, values: number[]) => void,
): void {
  const count = group.length
  for (let index = 0; index < count; index++) {
    const offsets = offsetsOf(index)
    let values = offsets.map((at) => held[(index + 1) % count]![at]!)
    for (let hop = 1; hop < count; hop++) {
      sent[group[(index + hop) % count]!]! += values.length
      const data = held[(index + hop + 1) % count]!
      values = values.map((value, at) =>
        reduce === 'max' ? Math.max(value, data[offsets[at]!]!) : value + data[offsets[at]!]!,
      )
    }
    done(index, reduce === 'mean' ? values.map((value) => value / count) : values)
  }
}
