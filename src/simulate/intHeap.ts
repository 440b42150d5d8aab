/** A binary heap of small whole numbers, each in it at most once, by a time of each; of equal times the lower number first. */
export class IntHeap {
  private readonly times: Float64Array
  private items: Int32Array = new Int32Array(16)
  private size = 0

  constructor(count: number) {
    this.times = new Float64Array(count)
  }

  push(item: number, time: number): void {
    this.times[item] = time
    if (this.size === this.items.length) {
      const larger = new Int32Array(2 * this.items.length)
      larger.set(this.items)
      this.items = larger
    }
    const { items } = this
    let at = this.size++
    while (at > 0) {
      const parent = (at - 1) >> 1
      const other = items[parent]!
      if (!this.precedes(item, other)) break
      items[at] = other
      at = parent
    }
    items[at] = item
  }

  /** The first, or -1 when there is none. */
  pop(): number {
    if (this.size === 0) return -1
    const { items } = this
    const top = items[0]!
    const last = items[--this.size]!
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.size) break
      if (child + 1 < this.size && this.precedes(items[child + 1]!, items[child]!)) child++
      if (!this.precedes(items[child]!, last)) break
      items[at] = items[child]!
      at = child
    }
    items[at] = last
    return top
  }

  time(item: number): number {
    return this.times[item]!
  }

  private precedes(a: number, b: number): boolean {
    const { times } = this
    return times[a]! < times[b]! || (times[a] === times[b] && a < b)
  }
}
