import type { DagNode, DagOperand, DagValue } from './dag.ts'

export type AccessKind = 'read' | 'write' | 'update'

/**
 * All accesses of all nodes as columns, in the order of insertion; those of one node are its reads, then its writes
 * (of a transfer the source, then the destination; of a collective those of each member, part by part). Values are numbered once, in
 * the order of their first access: everything after that compares numbers.
 */
export class AccessTable {
  /** By number. */
  readonly values: { readonly actor: number; readonly value: DagValue }[] = []
  /** Node n has the accesses from first[n] up to first[n + 1]. */
  readonly first: number[] = [0]
  readonly node: number[] = []
  readonly value: number[] = []
  readonly kind: AccessKind[] = []
  readonly region: DagOperand['region'][] = []
  /** By actor, then by buffer, then by step and micro-batch. */
  private readonly numbers: Map<string, Map<number, number>>[]

  constructor(actors: number) {
    this.numbers = Array.from({ length: actors }, () => new Map<string, Map<number, number>>())
  }

  add(node: DagNode): void {
    switch (node.kind) {
      case 'run':
        for (const read of node.reads) this.push(node, node.actor, read, 'read')
        for (const write of node.writes)
          this.push(node, node.actor, write, write.mode === 'add' ? 'update' : 'write')
        break
      case 'transfer':
        this.push(node, node.from, node.source, 'read')
        this.push(node, node.to, node.destination, 'write')
        break
      case 'collective':
        for (const { actor, parts } of node.members)
          for (const { source, result } of parts) {
            this.push(node, actor, source, result === undefined ? 'update' : 'read')
            if (result !== undefined)
              this.push(node, actor, result, result.mode === 'add' ? 'update' : 'write')
          }
        break
      case 'move':
        this.push(node, node.actor, node.value, node.direction === 'in' ? 'write' : 'read')
        break
    }
    this.first.push(this.value.length)
  }

  /** Number of a value that some node accesses; undefined where none does. */
  find(actor: number, value: DagValue): number | undefined {
    return this.numbers[actor]!.get(value.buffer)?.get(instanceKey(value))
  }

  private push(node: DagNode, actor: number, operand: DagOperand, kind: AccessKind): void {
    this.node.push(node.id)
    this.value.push(this.number(actor, operand))
    this.kind.push(kind)
    this.region.push(operand.region)
  }

  private number(actor: number, value: DagValue): number {
    const byBuffer = this.numbers[actor]!
    let instances = byBuffer.get(value.buffer)
    if (instances === undefined) {
      instances = new Map()
      byBuffer.set(value.buffer, instances)
    }
    const key = instanceKey(value)
    const known = instances.get(key)
    if (known !== undefined) return known
    instances.set(key, this.values.length)
    return this.values.push({ actor, value }) - 1
  }
}

/** A step is 0 or 1, where there is one; a window stands alone. */
function instanceKey({ step = -1, microbatch = -1, window }: DagValue): number {
  return window === undefined ? 3 * (microbatch + 1) + step + 1 : -1 - window
}
