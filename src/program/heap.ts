/** A binary heap: the least item first. Of items that precede each other in neither way, any may come first. */
export class Heap<T> {
  private readonly items: T[] = []
  private readonly precedes: (a: T, b: T) => boolean

  constructor(precedes: (a: T, b: T) => boolean) {
    this.precedes = precedes
  }

  push(item: T): void {
    const { items, precedes } = this
    items.push(item)
    let at = items.length - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!precedes(items[at]!, items[parent]!)) break
      swap(items, at, parent)
      at = parent
    }
  }

  pop(): T | undefined {
    const { items, precedes } = this
    const top = items[0]
    const last = items.pop()
    if (last === undefined || items.length === 0) return top
    items[0] = last
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      let least = at
      if (left < items.length && precedes(items[left]!, items[least]!)) least = left
      if (right < items.length && precedes(items[right]!, items[least]!)) least = right
      if (least === at) return top
      swap(items, at, least)
      at = least
    }
  }
}

function swap<T>(items: T[], a: number, b: number): void {
  const kept = items[a]!
  items[a] = items[b]!
  items[b] = kept
}
