import type { OpName, TensorType, ValueId } from '../../graph/index.ts'
import type { FactoredGraph } from '../factors/factorGraph.ts'
import { replicatedLayout, sameLayout } from '../layout.ts'
import { redistribute } from '../redistribute.ts'
import type { opPlans } from '../rules/choose.ts'
import type { CuttableOp } from '../rules/cuttable.ts'
import { printLayout } from '../text.ts'
import type { Layout, Mesh } from '../types.ts'
import type { ComputeItem, MoveItem, PlacedValue } from './types.ts'

interface Generator {
  readonly op: CuttableOp
  readonly operands: readonly ValueId[]
  readonly block: number
}

/**
 * The layouts that each value of a graph has so far, and the items that made them. Each redistribution of a value to a
 * layout is made once. What a node makes from nothing, or repeats of one number, is made in whatever layout it is asked for.
 */
export class Versions {
  readonly items: (ComputeItem | MoveItem)[] = []
  readonly placed: Map<string, PlacedValue> = new Map()
  private readonly factored: FactoredGraph
  private readonly mesh: Mesh
  private readonly plansOf: typeof opPlans
  private readonly known = new Map<ValueId, PlacedValue[]>()
  private readonly settled = new Map<ValueId, PlacedValue[]>()
  private readonly generators = new Map<ValueId, Generator>()

  constructor(factored: FactoredGraph, mesh: Mesh, plansOf: typeof opPlans) {
    this.plansOf = plansOf
    this.factored = factored
    this.mesh = mesh
  }

  type(value: ValueId): TensorType {
    return this.factored.types[value]!
  }

  /** Whether a node of these operands repeats a number, or what is made from nothing. */
  repeats(op: OpName, operands: readonly ValueId[]): boolean {
    const [operand] = operands
    if (operand === undefined) return true
    if (op !== 'broadcast' && op !== 'reshape') return false
    const isNumber = this.type(operand).shape.length === 0
    return this.generators.has(operand) || (isNumber && this.layouts(operand).some(isWhole))
  }

  addGenerator(value: ValueId, generator: Generator): void {
    this.generators.set(value, generator)
  }

  /** The value as it is made, or as it is given by `name`. */
  place(value: ValueId, layout: Layout, name: string = `%${value} ${printLayout(layout)}`): string {
    const factors = this.factored.factors[value]!.map(({ length }) => length)
    const made = { name, type: this.type(value), factors, layout }
    this.placed.set(name, made)
    this.known.set(value, [...(this.known.get(value) ?? []), made])
    const settled = this.settled.get(value)
    if (settled !== undefined) this.settled.set(value, [...settled, made])
    return name
  }

  /** From here on ways to compute start from this layout, and no longer from those it had before. */
  settle(value: ValueId, layout: Layout): void {
    this.settled.set(value, [this.find(value, layout)!])
  }

  has(value: ValueId): boolean {
    return this.known.has(value)
  }

  layouts(value: ValueId): readonly Layout[] {
    if (this.generators.has(value)) return [replicatedLayout(this.type(value).shape.length)]
    return (this.settled.get(value) ?? this.known.get(value)!).map(({ layout }) => layout)
  }

  /** The value in a layout, made so from how it lies in `from` where it does not lie so yet. */
  require(value: ValueId, from: Layout, to: Layout, block: number): string {
    const found = this.find(value, to)
    if (found !== undefined) return found.name
    const generated = this.generate(value, to)
    if (generated !== undefined) return generated
    const source = this.generators.has(value)
      ? this.require(value, from, from, block)
      : this.find(value, from)!.name
    const redistribution = redistribute(this.type(value), this.mesh, from, to, { regular: true })
    const name = this.place(value, to)
    this.items.push({ kind: 'redistribute', from: source, to: name, redistribution, block })
    return name
  }

  private find(value: ValueId, layout: Layout): PlacedValue | undefined {
    return this.known.get(value)?.find((placed) => sameLayout(placed.layout, layout))
  }

  private generate(value: ValueId, to: Layout): string | undefined {
    const generator = this.generators.get(value)
    if (generator === undefined) return undefined
    const { op, operands: ids, block } = generator
    const layouts = ids.map((id) => this.layouts(id).find(isWhole)!)
    const plan = this.plansOf(op, { mesh: this.mesh, layouts, wanted: [to] }).find(
      ({ outputs, wireBytes }) => wireBytes === 0 && sameLayout(outputs[0]!, to),
    )
    if (plan === undefined) return undefined
    const operands = ids.map((id, at) => this.require(id, layouts[at]!, plan.operands[at]!.to, block))
    const name = this.place(value, to)
    const { assignment } = plan
    this.items.push({ kind: 'compute', op, assignment, operands, results: [name], block })
    return name
  }
}

function isWhole(layout: Layout): boolean {
  return sameLayout(layout, replicatedLayout(layout.dims.length))
}
