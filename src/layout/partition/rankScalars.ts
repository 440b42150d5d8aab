import type { FloatDType, GraphBuilder, ValueId } from '../../graph/index.ts'
import type { RankScalar } from './types.ts'

/** The numbers that ranks have by their coordinates, as inputs of the graph that they all run; each is one input. */
export class RankScalars {
  readonly used: RankScalar[]
  private readonly builder: GraphBuilder

  constructor(builder: GraphBuilder, used: readonly RankScalar[] = []) {
    this.builder = builder
    this.used = [...used]
  }

  /** See `StartValue`. */
  readonly start = (axes: readonly string[], step: number): ValueId => {
    const name = `start ${axes.join(' ')} ${step}`
    return this.builder.findInput(name) ?? this.add({ kind: 'start', name, axes, step }, 'i32')
  }

  isZero(axes: readonly string[], dtype: FloatDType): ValueId {
    const name = `first ${axes.join(' ')} ${dtype}`
    return this.builder.findInput(name) ?? this.add({ kind: 'isZero', name, axes, dtype }, dtype)
  }

  private add(scalar: RankScalar, dtype: FloatDType | 'i32'): ValueId {
    this.used.push(scalar)
    return this.builder.input(scalar.name, 'scalar', { dtype, shape: [] })
  }
}
