import {
  canonicalHash,
  type GraphInput,
  type GraphOutput,
  type ParameterGradient,
  type StageDerivative,
} from '../../graph/index.ts'
import type { LocalDerivative } from './localDerivative.ts'

/**
 * What `localDerivative` makes of `to`, from what it made of a stage that is the same but for names: blocks, inputs and
 * outputs of both are one to one, in their order.
 */
export function renamedLocal(
  local: LocalDerivative,
  from: StageDerivative,
  to: StageDerivative,
): LocalDerivative {
  const names = new Map<string, string>()
  from.joint.inputs.forEach(({ name }, at) => {
    names.set(name, to.joint.inputs[at]!.name)
  })
  from.joint.outputs.forEach(({ name }, at) => {
    names.set(name, to.joint.outputs[at]!.name)
  })
  const parts = from.gradients.map(
    (gradient, at) => [gradient, local.gradients[at]!, to.gradients[at]!] as const,
  )
  // Ids that a rank has of its own are named after the rows.
  for (const [before, own, after] of parts)
    if (own.kind === 'rows' && before.kind === 'rows' && after.kind === 'rows' && 'output' in own.ids)
      if (!names.has(own.ids.output))
        names.set(own.ids.output, `${after.values}${own.ids.output.slice(before.values.length)}`)
  const renamed = (name: string): string => names.get(name) ?? name
  const all = <T extends GraphInput | GraphOutput>(list: readonly T[]): T[] =>
    list.map((one) => ({ ...one, name: renamed(one.name) }))
  const keyed = <T>(map: ReadonlyMap<string, T>): Map<string, T> =>
    new Map([...map].map(([name, value]) => [renamed(name), value]))
  const { joint } = local
  return {
    ...local,
    joint: { ...joint, inputs: all(joint.inputs), outputs: all(joint.outputs), blocks: to.joint.blocks },
    forwardOutputs: all(local.forwardOutputs),
    cotangentOutputs: all(local.cotangentOutputs),
    gradientOutputs: all(local.gradientOutputs),
    standIns: all(local.standIns),
    gradients: parts.map(([, own, { parameter }]): ParameterGradient => {
      if (own.kind === 'dense') return { ...own, parameter, output: renamed(own.output) }
      const ids = 'input' in own.ids ? { input: renamed(own.ids.input) } : { output: renamed(own.ids.output) }
      return { ...own, parameter, values: renamed(own.values), ids }
    }),
    placed: keyed(local.placed),
    terms: keyed(local.terms),
  }
}

/** Equal for derivatives of which one is the other but for names. */
export function derivativeKey({ joint }: StageDerivative): string {
  return `${canonicalHash(joint)} ${joint.nodes.map(({ op, block }) => `${op}${block}`).join()}`
}
