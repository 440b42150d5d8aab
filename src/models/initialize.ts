import { internalError } from '../base/index.ts'
import { fillNormal } from '../graph/index.ts'
import type { ParameterSpec } from './types.ts'

/**
 * Fills `out` with the initial values of the parameter's elements `start` … `start + out.length - 1` in row-major
 * order. They depend on seed, name and element alone: any rank may fill any part, and all parts agree.
 */
export function initializeParameter(
  out: Float32Array | Float64Array,
  parameter: ParameterSpec,
  options: { readonly seed: number; readonly start?: number },
): void {
  const { name, initial, shape } = parameter
  const start = options.start ?? 0
  const elements = shape.reduce((count, size) => count * size, 1)
  if (start < 0 || start + out.length > elements)
    throw internalError(`elements ${start} to ${start + out.length} of ${name}, which has ${elements}`)
  switch (initial.kind) {
    case 'zeros':
      out.fill(0)
      return
    case 'ones':
      out.fill(1)
      return
    case 'normal':
      fillNormal(out, { seed: options.seed, name, std: initial.std, mean: 0, start })
      return
  }
}
