import { MeshwrightError } from '../../base/index.ts'
import type { Graph, StageDerivative } from '../../graph/index.ts'
import {
  derivativeKey,
  type FactoredAxes,
  type LayoutSettings,
  type LocalDerivative,
  layoutForm,
  layoutWants,
  localDerivative,
  printMesh,
  renamedLocal,
} from '../../layout/index.ts'
import type { Model } from '../../models/index.ts'
import type { ResolvedPlan } from '../../plan/index.ts'
import { isReplicaAxis } from '../mesh.ts'

/** How the ranks of each actor share the work of a replica. */
export interface StageLayouts {
  readonly actors: readonly FactoredAxes[]
  /** See `TaskOptions.holdGathered`. */
  readonly holdGathered: boolean
  /** The model's graph for so many samples, as the layouts need it. */
  readonly build: (batch: number) => Graph
  /** What a rank of an actor does of a stage; its gradients are terms along the given axes, by parameter, and maybe others. */
  readonly derive: (
    derivative: StageDerivative,
    actor: number,
    terms: ReadonlyMap<string, readonly string[]>,
  ) => LocalDerivative
  /** Throws MeshwrightError `LAYOUT_RULE` where a rule of the plan has said nothing of any value of the stages so far. */
  readonly checkRules: () => void
}

export function stageLayouts(
  plan: Pick<ResolvedPlan, 'sequence' | 'dtype'>,
  model: Model,
  layout: {
    readonly actors: readonly FactoredAxes[]
    readonly settings: LayoutSettings
    readonly paddedVocabulary: number
  },
): StageLayouts {
  const { actors, settings } = layout
  const within = actors.map(withinMesh)
  const used = new Set<number>()
  /** Stages of equal layers are one, but for names. */
  const known = new Map<string, { readonly derivative: StageDerivative; readonly local: LocalDerivative }>()
  return {
    actors,
    holdGathered: settings.gathered,
    build: (batch) => {
      const graph = model.build({ batch, sequence: plan.sequence, dtype: plan.dtype })
      return layoutForm(settings, actors[0]!, graph, layout.paddedVocabulary)
    },
    derive: (derivative, actor, terms) => {
      const axes = within[actor]!
      // Samples are cut over data: gradients are terms along it, also those that are zeros.
      const samples = axes.mesh.axes.flatMap(({ name }) => (isReplicaAxis(name) ? [name] : []))
      const required = new Map(
        derivative.gradients.map(({ parameter }) => [
          parameter,
          [...new Set([...(terms.get(parameter) ?? []), ...samples])],
        ]),
      )
      // Rules of the plan may tell equal stages apart by name.
      const own = derivative.gradients.map(({ parameter }) => required.get(parameter)!.join())
      const names = settings.rules.length > 0 ? derivative.joint.inputs.map(({ name }) => name) : []
      const key = JSON.stringify([derivativeKey(derivative), printMesh(axes.mesh), own, names])
      const alike = known.get(key)
      if (alike !== undefined) return renamedLocal(alike.local, alike.derivative, derivative)
      const wants = layoutWants(settings, axes, derivative.joint, (rule) => used.add(rule))
      const local = localDerivative(derivative, axes.mesh, wants, {
        terms: required,
        overlap: settings.overlap,
      })
      known.set(key, { derivative, local })
      return local
    },
    checkRules: () => {
      const idle = settings.rules.findIndex((_, rule) => !used.has(rule))
      if (idle < 0) return
      const { match, place } = settings.rules[idle]!
      const what = match ?? (place.kind === 'axis' ? `axis ${place.axis}` : 'any value')
      throw new MeshwrightError(
        'LAYOUT_RULE',
        `layout.rules[${idle}] (${what}) places no value of ${model.name}, or later rules place all of those`,
        { hint: 'names of parameters are those of checkpoints; * stands for any characters' },
      )
    },
  }
}

/** Without the data axes outside of the mesh: the graph is of the samples of one rank along those. */
function withinMesh(axes: FactoredAxes): FactoredAxes {
  const isInside = (part: string): boolean => axes.mesh.axes.some(({ name }) => name === part)
  const parts = Object.entries(axes.parts).map(([name, from]) => [name, from.filter(isInside)] as const)
  return { ...axes, parts: Object.fromEntries(parts) }
}
