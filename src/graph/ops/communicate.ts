import { internalError } from '../../base/index.ts'
import type { OpRule } from '../rule.ts'
import { axesOf, isFloat, tensorType } from '../tensor.ts'
import type { CommunicateOperation, OpAttributes, TensorType } from '../types.ts'
import { requireOperands, shapeError } from './shapes.ts'

const reducing: readonly CommunicateOperation[] = ['allReduce', 'reduceScatter', 'reduce']
const rooted: readonly CommunicateOperation[] = ['broadcast', 'reduce']
/** Those that see a value as blocks of its first dim. */
const blockwise: readonly CommunicateOperation[] = ['reduceScatter', 'allGather', 'allToAll']

/** What is wrong with the attributes by themselves. */
function attributeProblem(attributes: OpAttributes['communicate']): string | undefined {
  const { operation, reduce, axes, members, root, shift, occasion = 0, chunk = 0 } = attributes
  if (!Number.isSafeInteger(members) || members < 1) return `${members} is not a number of members`
  if (axes.length === 0) return 'names no axis'
  if (new Set(axes).size < axes.length) return `names an axis twice: ${axes.join(', ')}`
  if (reducing.includes(operation) !== (reduce !== null))
    return reduce === null ? `${operation} needs a reduction` : `${operation} has no reduction`
  const places = (value: number, isUsed: boolean): boolean =>
    Number.isSafeInteger(value) && value >= 0 && value < (isUsed ? members : 1)
  if (!places(root, rooted.includes(operation))) return `${operation} among ${members} has no root ${root}`
  if (!places(shift, operation === 'permute')) return `${operation} among ${members} has no shift ${shift}`
  if (!Number.isSafeInteger(occasion) || occasion < 0) return `${occasion} is no occasion`
  return Number.isSafeInteger(chunk) && chunk >= 0 ? undefined : `${chunk} is no chunk`
}

function operandProblem(
  { operation, reduce, members }: OpAttributes['communicate'],
  { dtype, shape }: TensorType,
): string | undefined {
  if (reduce !== null && !isFloat(dtype) && (dtype !== 'i32' || reduce === 'mean'))
    return `${reduce} is not defined on ${dtype}`
  if (!blockwise.includes(operation)) return undefined
  if (shape.length === 0) return `${operation} needs a first dim`
  if (operation !== 'allGather' && shape[0]! % members !== 0)
    return `${shape[0]} rows do not divide among ${members} members`
  return undefined
}

/** No task has one: programs put a collective in its place. So nothing here runs but what one member does alone. */
export const communicate: OpRule<'communicate'> = {
  summary: 'a collective among the ranks along axes of a mesh',
  infer: (inputs, attributes) => {
    requireOperands('communicate', inputs, 1)
    const [x] = inputs as [TensorType]
    const problem = attributeProblem(attributes) ?? operandProblem(attributes, x)
    if (problem !== undefined) throw shapeError('communicate', inputs, problem)
    const { operation, members } = attributes
    if (operation === 'allGather')
      return [tensorType(x.dtype, x.shape.with(0, x.shape[0]! * members), axesOf(x))]
    if (operation === 'reduceScatter')
      return [tensorType(x.dtype, x.shape.with(0, x.shape[0]! / members), axesOf(x))]
    return [x]
  },
  vjp: [null],
  // The work is the network's, and costed there.
  cost: () => ({ flops: 0, bytes: 0 }),
  reference: ([x], { members }, [type]) => {
    if (members !== 1) throw internalError(`a communication among ${members} ranks in a graph of one`)
    return [{ type: type!, data: x!.data }]
  },
  onnx: () => {
    throw internalError('a task that communicates')
  },
}
