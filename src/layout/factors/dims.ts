/**
 * Dims of the values of a graph that have to be cut alike, as classes, and where each is divided. A dim of n elements that
 * is divided at p (a divisor of n) is seen as p parts of n / p elements: two dims, the outer first.
 */
export class DimClasses {
  private readonly parents: number[] = []
  private readonly sizes: number[] = []
  /** Of roots, ascending; each divides the next. */
  private readonly divisions: number[][] = []

  add(size: number): number {
    this.sizes.push(size)
    this.divisions.push([])
    return this.parents.push(this.parents.length) - 1
  }

  root(dim: number): number {
    let root = dim
    while (this.parents[root] !== root) root = this.parents[root]!
    for (let at = dim; at !== root; ) {
      const next = this.parents[at]!
      this.parents[at] = root
      at = next
    }
    return root
  }

  size(dim: number): number {
    return this.sizes[dim]!
  }

  divisionsOf(dim: number): readonly number[] {
    return this.divisions[this.root(dim)]!
  }

  /** Two dims of one size are cut alike. */
  join(left: number, right: number): void {
    const [first, second] = [this.root(left), this.root(right)]
    if (first === second) return
    const kept = Math.min(first, second)
    const gone = Math.max(first, second)
    this.parents[gone] = kept
    for (const at of this.divisions[gone]!) this.divide(kept, at)
  }

  /** Whether that is a new division; one that does not nest with those that are there is none. */
  divide(dim: number, at: number): boolean {
    const root = this.root(dim)
    const size = this.sizes[root]!
    const known = this.divisions[root]!
    if (at <= 1 || at >= size || size % at !== 0 || known.includes(at)) return false
    if (known.some((other) => other % at !== 0 && at % other !== 0)) return false
    this.divisions[root] = [...known, at].sort((a, b) => a - b)
    return true
  }

  /** Sizes of the parts that a dim is seen as, the outermost first. */
  factors(dim: number): readonly number[] {
    const ends = [...this.divisionsOf(dim), this.size(dim)]
    return ends.map((end, index) => end / (ends[index - 1] ?? 1))
  }
}
