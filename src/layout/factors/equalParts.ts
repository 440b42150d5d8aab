import type { OpAttributes } from '../../graph/index.ts'
import type { TypedOp } from '../rules/cuttable.ts'

/** A split into equal parts, or a concatenation of them: along `dim` the whole is `count` times a part. */
export interface EqualParts {
  readonly dim: number
  readonly count: number
  /** On which side the whole is. */
  readonly whole: 'inputs' | 'outputs'
}

/** Undefined for other ops, and where parts differ. */
export function equalParts({ op, attributes, inputs, outputs }: TypedOp): EqualParts | undefined {
  if (op !== 'split' && op !== 'concat') return undefined
  const { dim } = attributes as OpAttributes['concat']
  const parts = op === 'split' ? outputs : inputs
  const sizes = new Set(parts.map(({ shape }) => shape[dim]!))
  if (sizes.size !== 1 || sizes.has(0)) return undefined
  return { dim, count: parts.length, whole: op === 'split' ? 'inputs' : 'outputs' }
}
