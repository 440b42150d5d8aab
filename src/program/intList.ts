/** A growing list of 32-bit integers: millions of them are one block of memory, which a garbage collector need not go through. */
export class IntList {
  length = 0
  private data: Int32Array

  constructor(capacity = 64) {
    this.data = new Int32Array(capacity)
  }

  push(item: number): void {
    if (this.length === this.data.length) {
      const grown = new Int32Array(2 * this.length + 64)
      grown.set(this.data)
      this.data = grown
    }
    this.data[this.length++] = item
  }

  at(index: number): number {
    return this.data[index]!
  }

  /** What is there so far, without a copy: later pushes may or may not show in it. */
  view(): Int32Array {
    return this.data.subarray(0, this.length)
  }

  /** A copy, as long as the list. */
  toArray(): Int32Array {
    return this.data.slice(0, this.length)
  }
}
