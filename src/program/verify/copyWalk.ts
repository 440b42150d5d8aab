import { operandRows, overlap } from '../accesses.ts'
import { axisSize, isReplicaAxis } from '../mesh.ts'
import { blockAxes } from '../shards.ts'
import type {
  BufferSpec,
  CollectiveOperation,
  GraphTask,
  Instruction,
  MeshAxis,
  Operand,
  Program,
  Region,
  Write,
} from '../types.ts'
import type { RoleView } from './finding.ts'
import { heldRegion } from './packs.ts'
import { type Mask, TaskMasks } from './taskMasks.ts'

type Run = Extract<Instruction, { kind: 'run' }>
type Collective = Extract<Instruction, { kind: 'collective' }>
type Exchange = Extract<Instruction, { kind: 'exchange' }>

/** What a walk finds to say: where, what of a pack (or the value itself), and along which axes. */
export interface CopyProblem {
  readonly instruction: number
  readonly kind: 'differs' | 'added'
  readonly value: number
  readonly tensor: string | undefined
  readonly axes: Mask
}

/** What all walks share: what is sent, and what members of collectives bring, grows until nothing changes. */
export class CopyFlow {
  readonly program: Program
  /** By bit. */
  readonly axes: readonly string[]
  private readonly masks = new Map<string, Mask>()
  private readonly tasks = new Map<number, TaskMasks>()
  changed = false

  constructor(program: Program) {
    this.program = program
    const names = program.mesh.submeshes.flatMap((submesh) => submesh.map(({ name }) => name))
    // As many as a number has bits; no mesh has more.
    this.axes = [...new Set(names)].slice(0, 30)
  }

  bits(axes: readonly string[], submesh: readonly MeshAxis[]): Mask {
    return axes.reduce((mask, axis) => {
      const bit = this.axes.indexOf(axis)
      return bit < 0 || axisSize(submesh, axis) === 1 ? mask : mask | (1 << bit)
    }, 0)
  }

  names(mask: Mask): string[] {
    return this.axes.filter((_, bit) => (mask & (1 << bit)) !== 0)
  }

  task(index: number, task: GraphTask): TaskMasks {
    const known = this.tasks.get(index) ?? new TaskMasks(task)
    this.tasks.set(index, known)
    return known
  }

  /** Adds to what is known under a key, and gives all of it. */
  share(key: string, mask: Mask): Mask {
    const known = this.masks.get(key) ?? 0
    const all = known | mask
    if (all === known) return known
    this.masks.set(key, all)
    this.changed = true
    return all
  }
}

/** A pack: where each entry lies on the rank, and along which axes ranks have different elements of it. */
interface PackLayout {
  readonly regions: readonly Region[]
  readonly dealt: readonly Mask[]
  /** By offset. */
  readonly at: ReadonlyMap<number, number>
}

/**
 * Follows through the list of a role along which axes ranks have different values. Of a pack's tensors it is what goes
 * beyond their blocks and shards: 0 where ranks that hold the same elements have the same values.
 */
export class CopyWalk {
  readonly problems: CopyProblem[] = []
  private readonly flow: CopyFlow
  private readonly view: RoleView
  private readonly submesh: readonly MeshAxis[]
  private readonly packs: readonly (PackLayout | undefined)[]
  private readonly plain: Int32Array
  private readonly entries = new Map<number, Int32Array>()
  private readonly replicas: Mask
  private readonly writers = new Map<number, number>()
  private instruction = 0

  constructor(flow: CopyFlow, view: RoleView) {
    this.flow = flow
    this.view = view
    const { role } = view
    this.submesh = flow.program.mesh.submeshes[role.pipeline] ?? []
    this.plain = new Int32Array(role.values.length)
    this.replicas = this.bits(this.submesh.flatMap(({ name }) => (isReplicaAxis(name) ? [name] : [])))
    this.packs = role.buffers.map((buffer) => this.layoutOf(buffer))
    role.values.forEach(({ buffer }, value) => {
      const constant = role.buffers[buffer]?.constant
      if (constant !== undefined)
        this.plain[value] = this.bits('start' in constant ? constant.start.axes : constant.isZero)
    })
  }

  walk(): this {
    const { code } = this.view
    for (this.instruction = 0; this.instruction < code.length; this.instruction++) {
      const item = this.view.instruction(this.instruction)
      if (item?.kind === 'run') this.run(item)
      else if (item?.kind === 'collective') this.collective(item)
      else if (item?.kind === 'exchange') this.exchange(item)
      else if (item?.kind === 'move') {
        const { value, direction } = item
        const isScalar = this.buffer(value)?.shape.length === 0
        if (direction === 'in') this.plain[value] = isScalar ? 0 : this.replicas
        else this.require(value, this.instruction)
      }
    }
    const { values, buffers } = this.view.role
    values.forEach(({ buffer, step }, value) => {
      if (step === 1 && buffers[buffer]?.state === true) this.require(value, this.writers.get(value) ?? 0)
    })
    return this
  }

  private bits(axes: readonly string[]): Mask {
    return this.flow.bits(axes, this.submesh)
  }

  private buffer(value: number): BufferSpec | undefined {
    return this.view.role.buffers[this.view.values.buffer[value] ?? -1]
  }

  private layoutOf(buffer: BufferSpec): PackLayout | undefined {
    const { pack, shard } = buffer
    if (pack === undefined) return undefined
    return {
      regions: pack.map((entry) => heldRegion(buffer, entry, this.submesh)),
      dealt: pack.map((entry) => this.bits([...blockAxes(entry), ...(shard?.axes ?? [])])),
      at: new Map(pack.map(({ offset }, index) => [offset, index])),
    }
  }

  private layout(value: number): PackLayout | undefined {
    return this.packs[this.view.values.buffer[value] ?? -1]
  }

  private masksOf(value: number, { regions }: PackLayout): Int32Array {
    const known = this.entries.get(value) ?? new Int32Array(regions.length)
    this.entries.set(value, known)
    return known
  }

  /** Entries that an operand has something of. */
  private covered(operand: Operand, layout: PackLayout): number[] {
    const rows = operandRows(this.view.role, operand)
    return layout.regions.flatMap((region, index) => (overlap(region, rows) ? [index] : []))
  }

  /** Along which axes ranks read different values there. */
  private read(operand: Operand): Mask {
    const layout = this.layout(operand.value)
    if (layout === undefined) return this.plain[operand.value] ?? 0
    const masks = this.masksOf(operand.value, layout)
    return this.covered(operand, layout).reduce(
      (mask, entry) => mask | masks[entry]! | layout.dealt[entry]!,
      0,
    )
  }

  private write(write: Write, mask: Mask): void {
    this.writers.set(write.value, this.instruction)
    const layout = this.layout(write.value)
    const isPart = write.mode === 'add' || write.region !== undefined
    if (layout === undefined) this.plain[write.value] = isPart ? this.plain[write.value]! | mask : mask
    else for (const entry of this.covered(write, layout)) this.writeEntry(write, layout, entry, mask)
  }

  private writeEntry(write: Write, layout: PackLayout, entry: number, mask: Mask): void {
    const masks = this.masksOf(write.value, layout)
    const own = mask & ~layout.dealt[entry]!
    masks[entry] = write.mode === 'add' ? masks[entry]! | own : own
  }

  private run(run: Run): void {
    const { program } = this.flow
    const task = program.tasks[run.task]
    if (task?.kind !== 'graph') {
      const mask = run.reads.reduce((all, operand) => all | this.read(operand), 0)
      for (const write of run.writes) this.write(write, mask)
      return
    }
    const masks = this.flow.task(run.task, task)
    if (masks.isElementwise && [...run.reads, ...run.writes].some(({ value }) => this.layout(value)))
      this.update(run, task, masks)
    else this.graph(run, task, masks)
  }

  private graph(run: Run, task: GraphTask, masks: TaskMasks): void {
    const inputs = new Array<Mask>(task.graph.inputs.length).fill(0)
    task.reads.forEach((port, index) => {
      const operand = run.reads[index]!
      if (port.kind === 'tensor') inputs[port.input] = this.read(operand)
      if (port.kind !== 'pack') return
      const layout = this.layout(operand.value)
      const start = layout === undefined ? 0 : operandRows(this.view.role, operand).start
      for (const { input, offset } of port.entries) {
        const entry = layout?.at.get(start + offset)
        inputs[input] =
          layout === undefined || entry === undefined
            ? this.read(operand)
            : this.masksOf(operand.value, layout)[entry]! | layout.dealt[entry]!
      }
    })
    const outputs = masks.outputs(inputs)
    task.writes.forEach((port, index) => {
      const write = run.writes[index]!
      if (port.kind === 'tensor') {
        this.write(write, outputs[port.output]!)
        return
      }
      this.writers.set(write.value, this.instruction)
      const layout = this.layout(write.value)
      const { start } = operandRows(this.view.role, write)
      const put = (offset: number, mask: Mask, mode: Write['mode']): void => {
        const entry = layout?.at.get(start + offset)
        if (layout === undefined || entry === undefined) this.write({ ...write, mode: 'add' }, mask)
        else this.writeEntry({ ...write, mode }, layout, entry, mask)
      }
      for (const { output, offset } of port.entries) put(offset, outputs[output]!, write.mode)
      for (const { values, ids, offset, clears } of port.rows) {
        const at = 'read' in ids ? this.read(run.reads[ids.read]!) : outputs[ids.output]!
        put(offset, outputs[values]! | at, clears ? write.mode : 'add')
      }
    })
  }

  /** An update goes through packs that lie alike element by element, so that every tensor follows from its own. */
  private update(run: Run, task: GraphTask, masks: TaskMasks): void {
    const ports = task.reads.map((port) => (port.kind === 'tensor' ? port.input : -1))
    const model = [...run.reads, ...run.writes].find(({ value }) => this.layout(value) !== undefined)!
    for (const entry of this.covered(model, this.layout(model.value)!)) {
      const inputs = new Array<Mask>(task.graph.inputs.length).fill(0)
      run.reads.forEach((operand, index) => {
        const layout = this.layout(operand.value)
        const own =
          layout === undefined ? this.read(operand) : (this.masksOf(operand.value, layout)[entry] ?? 0)
        if (ports[index]! >= 0) inputs[ports[index]!] = own
      })
      const outputs = masks.outputs(inputs)
      task.writes.forEach((port, index) => {
        const write = run.writes[index]!
        const layout = this.layout(write.value)
        const mask = port.kind === 'tensor' ? outputs[port.output]! : -1
        this.writers.set(write.value, this.instruction)
        if (layout === undefined) this.write(write, mask)
        else this.writeEntry(write, layout, entry, mask)
      })
    }
  }

  private collective({ collective, operation, reduce, group, parts }: Collective): void {
    const { groups } = this.flow.program
    const over = groups[group]
    const along = this.bits(over?.axes ?? [])
    const others = over?.axes.includes('pipeline') === true || this.view.role.where !== undefined
    // Other stages may have several ranks along axes that have one here.
    const here = this.bits(this.submesh.map(({ name }) => name))
    const together = (key: string, mask: Mask): Mask =>
      others ? this.flow.share(`collective ${collective} ${key}`, mask) & here : mask
    parts.forEach(({ source, result }, part) => {
      const [from, to] = [this.layout(source.value), this.layout(result.value)]
      if (from === undefined || to === undefined) {
        const mask = together(String(part), this.read(source))
        if (reduce === 'sum') this.requireTerms(source.value, mask, along)
        this.write(result, afterCollective(operation, mask, along))
        return
      }
      // Between packs it adds, gathers or deals out tensors as they are; what is dealt out says the layout.
      const pack = this.buffer(source.value)!.pack!
      const rows = operandRows(this.view.role, source)
      const target = this.masksOf(result.value, to)
      for (const entry of this.covered(source, from)) {
        const own = this.masksOf(source.value, from)[entry]!
        const mask = together(`${part} ${pack[entry]!.name}`, own)
        const { start, end } = from.regions[entry]!
        const isWhole = rows.start <= start && end <= rows.end
        const after = isWhole ? mask & ~along : mask
        if (reduce === 'sum')
          this.requireTerms(source.value, mask | from.dealt[entry]!, along, pack[entry]!.name)
        if (entry < target.length) target[entry] = result.mode === 'add' ? target[entry]! | after : after
      }
      this.writers.set(result.value, this.instruction)
    })
  }

  private exchange({ parts }: Exchange): void {
    const { role } = this.view
    for (const { direction, transfer, peer, value, region } of parts) {
      const { pipeline, axes } = role.peers[peer] ?? { pipeline: 0, axes: [] }
      const other = role.pipeline + pipeline
      if (direction === 'send') {
        this.flow.share(`${role.pipeline} to ${other} #${transfer}`, this.read({ value }))
        continue
      }
      const sent = this.flow.share(`${other} to ${role.pipeline} #${transfer}`, 0)
      const there = this.flow.program.mesh.submeshes[other] ?? []
      let mask = 0
      for (const { name, size } of this.submesh) {
        const bit = this.bits([name])
        const map = axes.findLast((axis) => axis.name === name)
        const follows = map === undefined ? axisSize(there, name) > 1 : map.scale !== 0
        const isOwn = map !== undefined && isReplicaAxis(name)
        if (size > 1 && follows && (isOwn || (sent & bit) !== 0)) mask |= bit
      }
      this.write(region === undefined ? { value, mode: 'set' } : { value, region, mode: 'set' }, mask)
    }
  }

  /** Of copies a sum is as many times too large as there are. Between replicas `sums` sees to it. */
  private requireTerms(value: number, mask: Mask, along: Mask, tensor?: string): void {
    const axes = along & ~mask & ~this.replicas
    if (axes !== 0) this.problems.push({ instruction: this.instruction, kind: 'added', value, tensor, axes })
  }

  private require(value: number, instruction: number): void {
    const layout = this.layout(value)
    const pack = this.buffer(value)?.pack
    if (layout === undefined || pack === undefined) {
      const axes = this.buffer(value)?.shape.length === 0 ? this.plain[value]! : 0
      if (axes !== 0) this.problems.push({ instruction, kind: 'differs', value, tensor: undefined, axes })
      return
    }
    this.masksOf(value, layout).forEach((axes, entry) => {
      if (axes !== 0)
        this.problems.push({ instruction, kind: 'differs', value, tensor: pack[entry]!.name, axes })
    })
  }
}

/** Along which axes results of a collective `along` others differ, where sources do along those of `mask`. */
function afterCollective(operation: CollectiveOperation, mask: Mask, along: Mask): Mask {
  switch (operation) {
    case 'allReduce':
    case 'allGather':
    case 'broadcast':
      return mask & ~along
    case 'permute':
      return (mask & along) === 0 ? mask : mask | along
    case 'reduceScatter':
    case 'reduce':
    case 'gather':
    case 'scatter':
    case 'allToAll':
      return mask | along
  }
}
