import {
  differentiatePiece,
  elementCount,
  type Graph,
  interpretGraph,
  makeTensor,
  type StageDerivative,
  splitStages,
  type Tensor,
} from '../../src/graph/index.ts'
import {
  type FactoredAxes,
  type LayoutSettings,
  type LocalDerivative,
  type LocalGraph,
  layoutWants,
  localDerivative,
} from '../../src/layout/index.ts'
import { expectSame, runLocal } from './layoutGraph.ts'

export const plainSettings: LayoutSettings = {
  tensor: null,
  sequence: false,
  vocabulary: true,
  context: null,
  zigzag: false,
  gathered: false,
  overlap: 1,
  rules: [],
}

/** Axes of these sizes, each a part of itself unless `parts` says otherwise. */
export function axesOf(
  sizes: Readonly<Record<string, number>>,
  parts: FactoredAxes['parts'] = {},
): FactoredAxes {
  const axes = Object.entries(sizes).map(([name, size]) => ({ name, size }))
  return {
    mesh: { axes },
    replicas: [],
    parts: { ...Object.fromEntries(axes.map(({ name }) => [name, [name]])), ...parts },
  }
}

/** Forward and backward of a whole model as one stage. */
export function wholeDerivative(graph: Graph): StageDerivative {
  return differentiatePiece(
    splitStages(
      graph,
      graph.blocks.map(() => 0),
    )[0]!,
  )
}

/** The local graph with those outputs alone that the whole graph has. */
export function localGraphOf({ joint }: StageDerivative, local: LocalDerivative): LocalGraph {
  // Gradients that are rows may be part of one that is dense there.
  const placed = (of: readonly { readonly name: string }[]) =>
    new Map(
      of.flatMap(({ name }) => (local.placed.has(name) ? [[name, local.placed.get(name)!] as const] : [])),
    )
  const outputs = placed([...joint.outputs, ...local.gradientOutputs])
  return {
    graph: { ...local.joint, outputs: local.joint.outputs.filter(({ name }) => outputs.has(name)) },
    scalars: local.scalars,
    inputs: placed(joint.inputs),
    outputs,
    kept: [],
    wireBytes: local.wireBytes,
  }
}

/** Cuts a whole model, runs it on all ranks, and compares loss, gradients and bytes; `original` where the graph was rewritten. */
export function checkModel(
  {
    graph,
    inputs,
    original = graph,
  }: { graph: Graph; inputs: ReadonlyMap<string, Tensor>; original?: Graph },
  axes: FactoredAxes,
  options: Partial<LayoutSettings>,
): { readonly local: LocalDerivative; readonly whole: LocalGraph; readonly derivative: StageDerivative } {
  const derivative = wholeDerivative(graph)
  const settings: LayoutSettings = { ...plainSettings, ...options }
  const wants = layoutWants(settings, axes, derivative.joint)
  const local = localDerivative(derivative, axes.mesh, wants, { overlap: settings.overlap })
  const whole = localGraphOf(derivative, local)
  const given = new Map(inputs).set('lossScale', makeTensor({ dtype: 'f64', shape: [] }, [0.25]))
  const run = runLocal(whole, axes.mesh, given)
  const isDense = local.gradients.every(({ kind }) => kind === 'dense')
  const placedGradients = isDense ? local.gradients : derivative.gradients
  const plain = original === graph ? derivative : wholeDerivative(original)
  const expected = interpretGraph(plain.joint, given)
  const data = new Map([...expected].map(([output, tensor]) => [output, tensor.data]))
  expectSame(
    {
      outputs: wholeResults({ ...derivative, gradients: placedGradients }, run.outputs, given),
      sentBytes: run.sentBytes,
    },
    new Map(
      [...wholeResults(plain, data, given)].map(([output, values]) => [
        output,
        makeTensor({ dtype: 'f64', shape: [values.length] }, values),
      ]),
    ),
  )
  if (Math.abs(run.sentBytes - local.wireBytes) > 1e-6)
    throw new Error(`${run.sentBytes} bytes were sent, ${local.wireBytes} said before`)
  checkTerms(local.joint)
  return { local, whole, derivative }
}

/** Throws where terms that a collective adds up are read by something else, which would take them for the value. */
function checkTerms({ nodes, outputs }: Graph): void {
  const uses = new Map<number, number>()
  const use = (value: number): void => {
    uses.set(value, (uses.get(value) ?? 0) + 1)
  }
  for (const { inputs } of nodes) inputs.forEach(use)
  for (const { value } of outputs) use(value)
  for (const { op, attributes, inputs } of nodes) {
    if (op !== 'communicate' || attributes.reduce === null || uses.get(inputs[0]!) === 1) continue
    throw new Error(`%${inputs[0]} is added up over ${attributes.axes}, and read as it is too`)
  }
}

/** Of the largest value that a rank makes or takes. */
export function largestElements({ graph: { values } }: LocalGraph): number {
  return Math.max(...values.map(({ type }) => elementCount(type.shape)))
}

/** Loss and gradients of parameters, all parts of each as one dense tensor: a rewriting may have tokens in another order. */
function wholeResults(
  { joint, gradients, forwardOutputs }: StageDerivative,
  outputs: ReadonlyMap<string, Tensor['data']>,
  inputs: ReadonlyMap<string, Tensor>,
): Map<string, Float64Array> {
  const results = new Map(forwardOutputs.map(({ name }) => [name, Float64Array.from(outputs.get(name)!)]))
  for (const gradient of gradients) {
    const parameter = joint.inputs.find(({ name }) => name === gradient.parameter)!
    const { shape } = joint.values[parameter.value]!.type
    const name = `gradient of ${gradient.parameter}`
    const total = results.get(name) ?? new Float64Array(elementCount(shape))
    results.set(name, total)
    if (gradient.kind === 'dense') {
      outputs.get(gradient.output)!.forEach((value, at) => {
        total[at]! += value
      })
      continue
    }
    const ids =
      'input' in gradient.ids ? inputs.get(gradient.ids.input)!.data : outputs.get(gradient.ids.output)!
    const values = outputs.get(gradient.values)!
    const row = values.length / ids.length
    ids.forEach((id, at) => {
      for (let index = 0; index < row; index++) total[id * row + index]! += values[at * row + index]!
    })
  }
  return results
}
