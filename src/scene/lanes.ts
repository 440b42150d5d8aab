import { lookOf } from './looks.ts'
import type { TimelineBox } from './timeline.ts'
import type { Family } from './tokens.ts'

/** What becomes of the boxes of one lane, in pixels along time: boxes seen apart, and strips of those too small. */
export interface LanePicture {
  readonly boxes: readonly PlacedBox[]
  readonly cells: readonly DensityCell[]
  /** Boxes that the cells stand for. */
  readonly merged: number
}

export interface PlacedBox {
  /** In the lane's list. */
  readonly box: number
  readonly left: number
  readonly right: number
  /** Which of `levels` equal parts of the lane's height it has, from the top. */
  readonly level: number
  readonly levels: number
}

/** A column of a density strip: how much of it boxes of each family take. */
export interface DensityCell {
  readonly left: number
  readonly right: number
  readonly level: number
  readonly levels: number
  /** Shares of the column's time; together at most 1. */
  readonly shares: readonly (readonly [Family, number])[]
}

/** Past so many at once boxes are no longer drawn over one another but as a strip. */
const mostLevels = 4

/** A box in pixels; or, for a strip, several boxes that overlap. */
interface Span {
  readonly box: number
  readonly left: number
  readonly right: number
}

/** Boxes of a lane that have a length, by start, in pixels. What overlaps by rounding only is set side by side. */
export function laneSpans(boxes: readonly TimelineBox[], toX: (time: number) => number): Span[] {
  const spans: Span[] = []
  boxes.forEach(({ start, end }, box) => {
    if (end > start) spans.push({ box, left: toX(start), right: toX(end) })
  })
  return spans.sort((a, b) => a.left - b.left || a.box - b.box)
}

/**
 * Places the boxes of a lane. Those narrower than `grain` pixels are merged with such neighbours less than a grain away
 * into strips, so that no more is drawn than so many a pixel, whatever there is.
 */
export function placeLane(boxes: readonly TimelineBox[], spans: readonly Span[], grain: number): LanePicture {
  const picture: MutablePicture = { boxes: [], cells: [], merged: 0 }
  const track = new Track(boxes, picture, grain, 0, 1)
  for (const cluster of clusters(spans)) {
    const only = cluster.length === 1 ? cluster[0] : undefined
    if (only !== undefined) {
      track.add([only])
      continue
    }
    const left = cluster[0]?.left ?? 0
    const right = cluster.reduce((most, span) => Math.max(most, span.right), left)
    const levels = assignLevels(cluster)
    if (right - left < grain || levels.length > mostLevels) {
      track.add(cluster)
      continue
    }
    track.flush()
    for (const [level, members] of levels.entries()) {
      const part = new Track(boxes, picture, grain, level, levels.length)
      part.startAt(track.end)
      for (const span of members) part.add([span])
      part.flush()
    }
    track.startAt(right)
  }
  track.flush()
  return picture
}

interface MutablePicture {
  readonly boxes: PlacedBox[]
  readonly cells: DensityCell[]
  merged: number
}

/** Hundredths of a pixel are what coordinates are rounded to. */
const tolerance = 0.005

/** Spans that overlap, directly or through others, together. */
function* clusters(spans: readonly Span[]): Generator<readonly Span[]> {
  let cluster: Span[] = []
  let right = Number.NEGATIVE_INFINITY
  for (const span of spans) {
    if (cluster.length > 0 && span.left >= right - tolerance) {
      yield cluster
      cluster = []
    }
    cluster.push(span)
    right = Math.max(right, span.right)
  }
  if (cluster.length > 0) yield cluster
}

/** Each span goes to the first level that is free when it starts; one more than may be drawn ends the search. */
function assignLevels(cluster: readonly Span[]): Span[][] {
  const levels: Span[][] = []
  for (const span of cluster) {
    const free = levels.find((level) => (level.at(-1)?.right ?? 0) <= span.left + tolerance)
    if (free !== undefined) free.push(span)
    else levels.push([span])
    if (levels.length > mostLevels) break
  }
  return levels
}

/** Boxes of one level, side by side in order, of which it collects those to be merged. */
class Track {
  private readonly boxes: readonly TimelineBox[]
  private readonly picture: MutablePicture
  private readonly grain: number
  private readonly level: number
  private readonly levels: number
  private run: Span[] = []
  private runLeft = 0
  /** Where the last one ends: what overlaps it by rounding begins there. */
  private runRight = 0

  constructor(
    boxes: readonly TimelineBox[],
    picture: MutablePicture,
    grain: number,
    level: number,
    levels: number,
  ) {
    this.boxes = boxes
    this.picture = picture
    this.grain = grain
    this.level = level
    this.levels = levels
  }

  get end(): number {
    return this.runRight
  }

  /** What is left of this is taken. */
  startAt(left: number): void {
    this.runRight = left
  }

  /** One box, or several that overlap, of which only their density can be seen. */
  add(spans: readonly Span[]): void {
    const left = Math.max(this.runRight, spans[0]?.left ?? 0)
    const right = spans.reduce((most, span) => Math.max(most, span.right), left)
    const wide = right - left >= this.grain
    if (this.run.length > 0 && (wide || left - this.runRight >= this.grain)) this.flush()
    if (this.run.length === 0) this.runLeft = left
    for (const span of spans) this.run.push(span)
    this.runRight = right
    if (wide) this.flush()
  }

  flush(): void {
    const { run, level, levels } = this
    this.run = []
    const first = run[0]
    if (first === undefined) return
    if (run.length === 1)
      this.picture.boxes.push({ box: first.box, left: this.runLeft, right: this.runRight, level, levels })
    else {
      this.picture.merged += run.length
      this.pushCells(run, this.runLeft, this.runRight)
    }
  }

  private pushCells(run: readonly Span[], left: number, right: number): void {
    const count = Math.max(1, Math.ceil((right - left) / Math.max(2, 4 * this.grain)))
    const width = (right - left) / count
    const covers = new Map<Family, Cover>()
    for (const span of run) {
      const { family } = lookOf(this.boxes[span.box]?.phase ?? '')
      const cover = covers.get(family) ?? new Cover(count)
      covers.set(family, cover)
      cover.add((span.left - left) / width, (span.right - left) / width)
    }
    const shares = [...covers].map(([family, cover]) => [family, cover.shares()] as const)
    for (let at = 0; at < count; at++) {
      const total = shares.reduce((sum, [, columns]) => sum + columns[at]!, 0)
      if (total <= 0) continue
      this.picture.cells.push({
        left: left + at * width,
        right: left + (at + 1) * width,
        level: this.level,
        levels: this.levels,
        shares: shares.flatMap(([family, columns]) =>
          columns[at]! > 0 ? [[family, columns[at]! / Math.max(1, total)] as const] : [],
        ),
      })
    }
  }
}

/** How much of each of so many columns intervals cover, in time linear in both: one that spans all costs no more. */
class Cover {
  private readonly partial: Float64Array
  /** Changes of the number of intervals that cover a whole column. */
  private readonly whole: Float64Array

  constructor(columns: number) {
    this.partial = new Float64Array(columns)
    this.whole = new Float64Array(columns + 1)
  }

  /** Ends in columns from the left. */
  add(from: number, to: number): void {
    const columns = this.partial.length
    const first = Math.min(columns - 1, Math.max(0, Math.floor(from)))
    const last = Math.min(columns - 1, Math.max(first, Math.floor(to)))
    if (first === last) this.partial[first]! += to - from
    else {
      this.partial[first]! += first + 1 - from
      this.partial[last]! += to - last
      this.whole[first + 1]! += 1
      this.whole[last]! -= 1
    }
  }

  shares(): Float64Array {
    let open = 0
    return this.partial.map((share, column) => {
      open += this.whole[column]!
      return share + open
    })
  }
}
