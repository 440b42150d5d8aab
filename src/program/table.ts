/** Items with an index each, equal ones once. */
export class Table<T> {
  readonly items: T[] = []
  private readonly ids = new Map<string, number>()
  private readonly key: (item: T) => string

  constructor(key: (item: T) => string) {
    this.key = key
  }

  id(item: T): number {
    const key = this.key(item)
    const known = this.ids.get(key)
    if (known !== undefined) return known
    this.ids.set(key, this.items.length)
    return this.items.push(item) - 1
  }

  /** Index of an item that is there. */
  find(item: T): number | undefined {
    return this.ids.get(this.key(item))
  }
}
