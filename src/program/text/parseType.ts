import type { DType } from '../../graph/index.ts'
import type { TextReader } from './reader.ts'

const dtypes: readonly DType[] = ['f32', 'f64', 'i32', 'bool']
const maximumRank = 16

/** `f64[2, 4]` */
export function parseType(reader: TextReader): { readonly dtype: DType; readonly shape: number[] } {
  const dtype = reader.word(dtypes, 'a dtype')
  return { dtype, shape: parseShape(reader) }
}

/** `[2, 4]`; `[]` of a scalar. `size` reads one of them. */
export function parseShape(reader: TextReader, size: () => number = () => reader.number('a size')): number[] {
  const at = reader.peek()
  reader.expect('[')
  if (reader.accept(']')) return []
  const shape = reader.list(size)
  reader.expect(']')
  if (shape.length > maximumRank) throw reader.fail(`more than ${maximumRank} dims`, at)
  // Eight bytes an element, and what is counted in bytes must stay exact.
  if (shape.reduce((product, size) => product * size, 1) > 2 ** 48)
    throw reader.fail('more than 2^48 elements', at)
  return shape
}
