import type { Graph, StageDerivative } from '../../graph/index.ts'
import {
  type FactoredAxes,
  type LayoutSettings,
  type LocalDerivative,
  layoutForm,
  layoutWants,
  localDerivative,
} from '../../layout/index.ts'
import type { Model } from '../../models/index.ts'
import type { ResolvedPlan } from '../../plan/index.ts'

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
  return {
    actors,
    holdGathered: settings.gathered,
    build: (batch) => {
      const graph = model.build({ batch, sequence: plan.sequence, dtype: plan.dtype })
      return layoutForm(settings, actors[0]!, graph, layout.paddedVocabulary)
    },
    derive: (derivative, actor, terms) => {
      const axes = within[actor]!
      const wants = layoutWants(settings, axes, derivative.joint)
      return localDerivative(derivative, axes.mesh, wants, { terms })
    },
  }
}

/** Without the data axes outside of the mesh: the graph is of the samples of one rank along those. */
function withinMesh(axes: FactoredAxes): FactoredAxes {
  const isInside = (part: string): boolean => axes.mesh.axes.some(({ name }) => name === part)
  const parts = Object.entries(axes.parts).map(([name, from]) => [name, from.filter(isInside)] as const)
  return { ...axes, parts: Object.fromEntries(parts) }
}
