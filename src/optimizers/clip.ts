import { MeshwrightError } from '../base/index.ts'
import { type FloatDType, type Graph, GraphBuilder, type ValueId } from '../graph/index.ts'

/**
 * Clipping by the global norm (Pascanu et al. 2013), as `torch.nn.utils.clip_grad_norm_`: the factor is
 * min(1, maxNorm / (norm + 1e-6)). Input: `sumOfSquares`, f64 [], over every gradient element once. Outputs:
 * `gradientNorm`, f64 [], before clipping, and `clipFactor`, [] of `dtype`. All arithmetic is in float64, so that
 * ranks with the same sum decide alike. Throws `OPTIMIZER_CLIP`.
 */
export function buildClipFactor(options: { readonly maxNorm: number; readonly dtype: FloatDType }): Graph {
  const { maxNorm, dtype } = options
  if (!Number.isFinite(maxNorm) || maxNorm <= 0)
    throw new MeshwrightError('OPTIMIZER_CLIP', `the largest gradient norm is ${maxNorm}`, {
      hint: 'it is a number above 0; leave it out for no clipping',
    })
  const builder = new GraphBuilder()
  const constant = (value: number): ValueId => builder.one('fill', [], { shape: [], dtype: 'f64', value })
  const sum = builder.input('sumOfSquares', 'scalar', { dtype: 'f64', shape: [] })
  const norm = builder.one('sqrt', [sum], {}, 'gradientNorm')
  const raised = builder.one('add', [norm, constant(1e-6)], {})
  const ratio = builder.one('div', [constant(maxNorm), raised], {})
  const factor = builder.one('min', [ratio, constant(1)], {})
  builder.output('gradientNorm', norm)
  builder.output('clipFactor', dtype === 'f64' ? factor : builder.one('cast', [factor], { dtype }))
  return builder.build()
}
