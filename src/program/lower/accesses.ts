import { columnAccess } from '../columnAccesses.ts'
import { IntList } from '../intList.ts'
import type { Region } from '../types.ts'
import type { DagOperand, DagValue, NewNode } from './dag.ts'

export type AccessKind = 'read' | 'write' | 'update'

const kindNames: readonly AccessKind[] = ['read', 'write', 'update']

/** An index that a value has not. */
const absent = -1

/**
 * All accesses of all nodes as columns, in the order of insertion; those of one node are its reads, then its writes
 * (of a transfer the source, then the destination; of a collective those of each member, part by part). Values are numbered once, in
 * the order of their first access: everything after that compares numbers.
 */
export class AccessTable {
  /** Every buffer that has a value, of every actor, in the order of first access. */
  readonly buffers: { readonly actor: number; readonly name: string }[] = []
  /** Node n has the accesses from first[n] up to first[n + 1]. */
  private readonly firsts = new IntList()
  private readonly nodes = new IntList()
  private readonly numbers = new IntList()
  private readonly kinds = new IntList()
  /** Index into `regions`; -1 for the whole. */
  private readonly regionOf = new IntList()
  private readonly regions: Region[] = []
  private readonly actors = new IntList()
  private readonly bufferOf = new IntList()
  private readonly microbatch = new IntList()
  private readonly step = new IntList()
  private readonly window = new IntList()
  /** By actor, then by name. */
  private readonly instances: Map<string, Instances>[]

  constructor(actors: number) {
    this.instances = Array.from({ length: actors }, () => new Map<string, Instances>())
    this.firsts.push(0)
  }

  /** Node n has the accesses from first[n] up to first[n + 1]. All columns are to be asked for anew when nodes were added. */
  get first(): Int32Array {
    return this.firsts.view()
  }

  /** By access: its node. */
  get node(): Int32Array {
    return this.nodes.view()
  }

  /** By access: the number of its value. */
  get value(): Int32Array {
    return this.numbers.view()
  }

  /** By access: one of `columnAccess`. */
  get kind(): Int32Array {
    return this.kinds.view()
  }

  /** By number of a value: its actor. */
  get actor(): Int32Array {
    return this.actors.view()
  }

  /** By number of a value: its buffer, an index into `buffers`. */
  get buffer(): Int32Array {
    return this.bufferOf.view()
  }

  /** What an access covers; undefined for the whole. */
  region(access: number): Region | undefined {
    const index = this.regionOf.at(access)
    return index < 0 ? undefined : this.regions[index]
  }

  /** The accesses of the next node. */
  add(node: NewNode): void {
    switch (node.kind) {
      case 'run':
        for (const read of node.reads) this.push(node.actor, read, 'read')
        for (const write of node.writes)
          this.push(node.actor, write, write.mode === 'add' ? 'update' : 'write')
        break
      case 'transfer':
        this.push(node.from, node.source, 'read')
        this.push(node.to, node.destination, 'write')
        break
      case 'collective':
        for (const { actor, parts } of node.members)
          for (const { source, result } of parts) {
            this.push(actor, source, result === undefined ? 'update' : 'read')
            if (result !== undefined) this.push(actor, result, result.mode === 'add' ? 'update' : 'write')
          }
        break
      case 'move':
        this.push(node.actor, node.value, node.direction === 'in' ? 'write' : 'read')
        break
    }
    this.firsts.push(this.numbers.length)
  }

  /** How many values there are. */
  get values(): number {
    return this.actors.length
  }

  /** The micro-batch of a value that has no other index; -1 for any other. */
  microbatchOf(number: number): number {
    return this.step.at(number) === absent && this.window.at(number) === absent
      ? this.microbatch.at(number)
      : absent
  }

  valueOf(number: number): DagValue {
    const buffer = this.buffers[this.bufferOf.at(number)]!.name
    const microbatch = this.microbatch.at(number)
    const step = this.step.at(number)
    const window = this.window.at(number)
    if (microbatch !== absent && step === absent && window === absent) return { buffer, microbatch }
    return {
      buffer,
      ...(microbatch === absent ? {} : { microbatch }),
      ...(step === absent ? {} : { step }),
      ...(window === absent ? {} : { window }),
    }
  }

  /** What a node accesses, as objects. */
  of(node: number): (DagOperand & { readonly kind: AccessKind })[] {
    const found: (DagOperand & { readonly kind: AccessKind })[] = []
    for (let access = this.firsts.at(node); access < this.firsts.at(node + 1); access++) {
      const region = this.region(access)
      const value = { ...this.valueOf(this.numbers.at(access)), kind: kindNames[this.kinds.at(access)]! }
      found.push(region === undefined ? value : { ...value, region })
    }
    return found
  }

  /** Number of the next version of a state that the step is given; undefined where it is none, or nobody makes it. */
  nextVersion(number: number): number | undefined {
    if (this.step.at(number) !== 0) return undefined
    const { actor, name } = this.buffers[this.bufferOf.at(number)]!
    return this.instances[actor]!.get(name)?.others.get(instanceKey({ ...this.valueOf(number), step: 1 }))
  }

  private push(actor: number, operand: DagOperand, kind: AccessKind): void {
    this.nodes.push(this.firsts.length - 1)
    this.numbers.push(this.number(actor, operand))
    this.kinds.push(columnAccess[kind])
    this.regionOf.push(operand.region === undefined ? -1 : this.regions.push(operand.region) - 1)
  }

  private number(actor: number, value: DagValue): number {
    const byName = this.instances[actor]!
    let instances = byName.get(value.buffer)
    if (instances === undefined) {
      const buffer = this.buffers.push({ actor, name: value.buffer }) - 1
      instances = { buffer, ofMicrobatch: [], others: new Map() }
      byName.set(value.buffer, instances)
    }
    const { microbatch } = value
    if (microbatch !== undefined && value.step === undefined && value.window === undefined) {
      const known = instances.ofMicrobatch[microbatch]
      if (known !== undefined) return known
      instances.ofMicrobatch[microbatch] = this.actors.length
    } else {
      const key = instanceKey(value)
      const known = instances.others.get(key)
      if (known !== undefined) return known
      instances.others.set(key, this.actors.length)
    }
    this.bufferOf.push(instances.buffer)
    this.microbatch.push(microbatch ?? absent)
    this.step.push(value.step ?? absent)
    this.window.push(value.window ?? absent)
    this.actors.push(actor)
    return this.actors.length - 1
  }
}

/** Numbers of a buffer's values: of those with a micro-batch alone by that, of the others by their key. */
interface Instances {
  readonly buffer: number
  readonly ofMicrobatch: number[]
  readonly others: Map<number, number>
}

/** A step is 0 or 1, where there is one; a window stands alone. */
function instanceKey({ step = -1, microbatch = -1, window }: DagValue): number {
  return window === undefined ? 3 * (microbatch + 1) + step + 1 : -1 - window
}
