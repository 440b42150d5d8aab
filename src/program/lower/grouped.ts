/** Numbers by key, as one list: the members of a key are together, in the order in which they were given. */
export class Grouped {
  /** Members of key k: list[start[k]] up to list[end[k]]. */
  readonly start: Int32Array
  readonly end: Int32Array
  readonly list: Int32Array

  /** `members[i]` under `keys[i]`; without members, the places i. Keys are from 0 up to `count` - 1. */
  constructor(count: number, keys: Int32Array, members?: Int32Array) {
    this.start = new Int32Array(count + 1)
    for (const key of keys) this.start[key + 1]!++
    for (let key = 0; key < count; key++) this.start[key + 1]! += this.start[key]!
    this.end = this.start.slice(0, count)
    this.list = new Int32Array(keys.length)
    for (let place = 0; place < keys.length; place++)
      this.list[this.end[keys[place]!]!++] = members === undefined ? place : members[place]!
  }

  count(key: number): number {
    return this.end[key]! - this.start[key]!
  }

  of(key: number): Int32Array {
    return this.list.subarray(this.start[key]!, this.end[key]!)
  }

  /** Keeps each member of a key once. Members are below `limit`. */
  dropRepeated(limit: number): this {
    const { start, end, list } = this
    const metUnder = new Int32Array(limit).fill(-1)
    for (let key = 0; key < end.length; key++) {
      let kept = start[key]!
      for (let at = kept; at < end[key]!; at++) {
        const member = list[at]!
        if (metUnder[member] === key) continue
        metUnder[member] = key
        list[kept++] = member
      }
      end[key] = kept
    }
    return this
  }
}
