import type { Graph, StageDerivative } from '../../graph/index.ts'
import {
  type FactoredAxes,
  type LayoutSettings,
  type LocalDerivative,
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
  layout: { readonly actors: readonly FactoredAxes[]; readonly settings: LayoutSettings },
): StageLayouts {
  const { actors, settings } = layout
  return {
    actors,
    holdGathered: settings.gathered,
    build: (batch) => model.build({ batch, sequence: plan.sequence, dtype: plan.dtype }),
    derive: (derivative, actor, terms) => {
      const axes = actors[actor]!
      const wants = layoutWants(settings, axes, derivative.joint)
      return localDerivative(derivative, axes.mesh, wants, { terms })
    },
  }
}
