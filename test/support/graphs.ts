import { type Graph, GraphBuilder, type OpName, type Tensor, type ValueId } from '../../src/graph/index.ts'
import type { OpCase } from './opCases.ts'

/** Builder calls for an op of which only the running test knows the name. */
export function applyCase(
  builder: GraphBuilder,
  testCase: OpCase,
  inputs: readonly ValueId[],
): readonly ValueId[] {
  return builder.op<OpName>(testCase.op, inputs, testCase.attributes)
}

/** A graph of the one op: inputs `x0`, `x1`, …, outputs `y0`, `y1`, …. */
export function graphOfCase(testCase: OpCase): { graph: Graph; inputs: Map<string, Tensor> } {
  const builder = new GraphBuilder()
  const inputs = new Map(testCase.inputs.map((tensor, index) => [`x${index}`, tensor] as const))
  const operands = [...inputs].map(([name, tensor]) => builder.input(name, 'activation', tensor.type))
  applyCase(builder, testCase, operands).forEach((output, index) => {
    builder.output(`y${index}`, output)
  })
  return { graph: builder.build({ keepInputs: true }), inputs }
}
