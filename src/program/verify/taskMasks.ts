import { ruleOf } from '../../graph/index.ts'
import type { GraphTask } from '../types.ts'

/** Sets of axes as bits of a number: those along which ranks have different values of something. */
export type Mask = number

/** What outputs of a task follow from, found once for each task. */
export class TaskMasks {
  /** For each output the inputs that it follows from. */
  private readonly inputsOf: readonly (readonly number[])[]
  private readonly known = new Map<string, readonly Mask[]>()
  /** Whether its operands are tensors whose elements go together, and scalars, as those of updates. */
  readonly isElementwise: boolean

  constructor({ graph, reads, writes }: GraphTask) {
    const words = Math.ceil(graph.inputs.length / 32)
    const sets: (Int32Array | undefined)[] = graph.values.map(() => undefined)
    graph.inputs.forEach(({ value }, index) => {
      const set = new Int32Array(words)
      set[index >> 5] = 1 << (index & 31)
      sets[value] = set
    })
    for (const { inputs, outputs } of graph.nodes) {
      const set = new Int32Array(words)
      for (const input of inputs)
        sets[input]?.forEach((word, at) => {
          set[at]! |= word
        })
      for (const output of outputs) sets[output] = set
    }
    this.inputsOf = graph.outputs.map(({ value }) =>
      graph.inputs.flatMap((_, index) => {
        const word = sets[value]?.[index >> 5] ?? 0
        return (word & (1 << (index & 31))) === 0 ? [] : [index]
      }),
    )
    this.isElementwise =
      [...reads, ...writes].every(({ kind }) => kind === 'tensor') &&
      graph.nodes.every(({ op, inputs }) => inputs.length === 0 || ruleOf(op).elementwise === true)
  }

  /** Of each output: the axes along which what it follows from differs. */
  outputs(inputs: readonly Mask[]): readonly Mask[] {
    const key = inputs.join()
    const known = this.known.get(key)
    if (known !== undefined) return known
    const masks = this.inputsOf.map((from) => from.reduce((mask, input) => mask | inputs[input]!, 0))
    this.known.set(key, masks)
    return masks
  }
}
