import { densify, GraphBuilder, type ParameterGradient, type StageDerivative } from '../../graph/index.ts'

/** The same derivative, but that gradients which are rows of a table are added up to one of the whole table's shape. */
export function withDenseRows(derivative: StageDerivative): StageDerivative {
  const { joint, gradients } = derivative
  if (gradients.every(({ kind }) => kind === 'dense')) return derivative
  const builder = GraphBuilder.from(joint)
  const given = new Map([...joint.inputs, ...joint.outputs].map(({ name, value }) => [name, value]))
  const owners = [...new Set(gradients.map(({ parameter }) => parameter))]
  const dense = owners.map((parameter): ParameterGradient & { kind: 'dense' } => {
    return { parameter, kind: 'dense', output: `g.${parameter}` }
  })
  const taken = new Set(derivative.gradientOutputs.map(({ name }) => name))
  for (const { name, value } of joint.outputs) if (!taken.has(name)) builder.output(name, value)
  for (const { parameter, output } of dense) {
    const own = gradients.filter((gradient) => gradient.parameter === parameter)
    const table = given.get(parameter)!
    const value = densify(builder, table, {
      dense: own.flatMap((gradient) => (gradient.kind === 'dense' ? [given.get(gradient.output)!] : []))[0],
      rows: own.flatMap((gradient) =>
        gradient.kind === 'rows'
          ? [
              {
                ids: given.get('input' in gradient.ids ? gradient.ids.input : gradient.ids.output)!,
                values: given.get(gradient.values)!,
              },
            ]
          : [],
      ),
    })
    builder.output(output, value!)
  }
  const changed = builder.build({ keepInputs: true })
  const gradientOutputs = dense.map(({ output }) => changed.outputs.find(({ name }) => name === output)!)
  const pick = (outputs: StageDerivative['standIns']): StageDerivative['standIns'] =>
    outputs.map(({ name }) => changed.outputs.find((output) => output.name === name)!)
  return {
    joint: changed,
    forwardOutputs: pick(derivative.forwardOutputs),
    cotangentOutputs: pick(derivative.cotangentOutputs),
    gradientOutputs,
    standIns: pick(derivative.standIns),
    gradients: dense,
  }
}
