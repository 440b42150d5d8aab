import { didYouMean, nearestWorking } from '../base/index.ts'
import {
  applyRules,
  type FactoredAxes,
  type PlacementRule,
  parseLayout,
  type Ruling,
} from '../layout/index.ts'
import type { PlanLayoutRule } from './layoutSection.ts'
import type { ModelShape, PlannedModel } from './modelShape.ts'
import type { Report } from './resolve.ts'
import { maximumRanks } from './schema.ts'
import type { PlanDocument } from './types.ts'

interface RuleContext {
  readonly model: PlannedModel
  readonly shape: ModelShape
  readonly sequence: number
  readonly actors: readonly FactoredAxes[]
}

type Problem = (rule: number, key: keyof PlanLayoutRule, message: string, hint?: string) => undefined

/** The rules of a plan; undefined, and reported, where one names what is not there or does not fit a parameter. */
export function resolveRules(
  { layout: { rules } }: PlanDocument,
  context: RuleContext,
  report: Report,
): readonly PlacementRule[] | undefined {
  const wrong = new Set<number>()
  // One problem of each rule: the next is most often the same.
  const problem: Problem = (rule, key, message, hint) => {
    if (wrong.has(rule)) return undefined
    wrong.add(rule)
    return report('PLAN_LAYOUT', ['layout', 'rules', rule, key], message, hint)
  }
  const resolved = rules.map(placementOf)
  for (const [index, rule] of resolved.entries()) checkNames(rule, index, context, problem)
  if (wrong.size > 0) return undefined
  for (const [index, { place }] of resolved.entries())
    if (place.kind === 'axis' && place.axis === 'sequence')
      for (const actor of new Set(context.actors)) {
        const parts = sizeOver(actor, expand(actor, place.over))
        if (context.sequence % parts !== 0)
          problem(index, 'over', ...notDivided('a sample', 'sequence', context.sequence, parts))
      }
  for (const actor of new Set(context.actors))
    for (const parameter of context.model.parameters) {
      const ruling = applyRules(resolved, actor.parts, parameter)
      if (ruling !== undefined) checkParameter(parameter, ruling, actor, context, rules, problem)
    }
  return wrong.size === 0 ? resolved : undefined
}

function placementOf({ match, axis, layout, over, keep }: PlanLayoutRule): PlacementRule {
  return {
    match,
    place:
      layout === null
        ? { kind: 'axis', axis: axis!, over: over! }
        : { kind: 'layout', layout: parseLayout(layout) },
    keep,
  }
}

function expand({ parts }: FactoredAxes, names: readonly string[]): string[] {
  return names.flatMap((name) => (Object.hasOwn(parts, name) ? parts[name]! : [name]))
}

function sizeOver({ mesh, replicas }: FactoredAxes, names: readonly string[]): number {
  const sizes = [...mesh.axes, ...replicas].filter(({ name }) => names.includes(name))
  return sizes.reduce((product, { size }) => product * size, 1)
}

/** Mesh axes that are there and may be named, none twice; a logical axis that the model has. */
function checkNames(
  { place }: PlacementRule,
  index: number,
  { actors, shape, model }: RuleContext,
  problem: Problem,
): undefined {
  const key = place.kind === 'layout' ? 'layout' : 'over'
  if (place.kind === 'axis' && !shape.axes.has(place.axis))
    return problem(
      index,
      'axis',
      `no dim of ${model.name} is called "${place.axis}"`,
      didYouMean(place.axis, shape.axes) ?? `its logical axes are ${[...shape.axes].sort().join(', ')}`,
    )
  const used =
    place.kind === 'layout'
      ? [...place.layout.dims.flat(), ...Object.keys(place.layout.partial), ...place.layout.varying]
      : place.over
  for (const actor of new Set(actors)) {
    const outside = new Set(['data', 'expertData', ...actor.replicas.map(({ name }) => name)])
    const known = [...new Set([...Object.keys(actor.parts), ...actor.mesh.axes.map(({ name }) => name)])]
    for (const name of used) {
      if (outside.has(name))
        return problem(
          index,
          key,
          `${name} is no axis of layouts: what is cut over it is the samples`,
          'leave it out, or set mesh.data',
        )
      if (!known.includes(name)) {
        const names = known.filter((candidate) => !outside.has(candidate))
        return problem(
          index,
          key,
          `the mesh has no axis "${name}"`,
          didYouMean(name, names) ?? `layouts may name ${names.join(', ')}`,
        )
      }
    }
    const twice = firstTwice(expand(actor, used))
    if (twice !== undefined)
      return problem(
        index,
        key,
        `${twice} is used twice on one tensor`,
        'an axis cuts one dim, or has one other use',
      )
  }
  return undefined
}

function firstTwice(names: readonly string[]): string | undefined {
  return names.find((name, index) => names.indexOf(name) !== index)
}

function checkParameter(
  { name, shape, axes }: PlannedModel['parameters'][number],
  ruling: Ruling,
  actor: FactoredAxes,
  context: RuleContext,
  rules: readonly PlanLayoutRule[],
  problem: Problem,
): undefined {
  const { dims, rule } = ruling
  const key = rules[rule]!.layout === null ? 'over' : 'layout'
  const whole = shape.map((size, dim) => headsOf(axes[dim]!, size, context.shape)[0]!)
  const factored = axes.flatMap((axis, dim) => factorsOf(axis, shape[dim]!, context.shape))
  const seen = dims.length === whole.length ? whole : factored
  if (dims.length !== seen.length)
    return problem(
      rule,
      key,
      `a layout of ${dims.length} dims does not fit ${name}, which has ${shape.length}`,
      `write it as [${axes.join(' | ')}], with axes of the mesh or . in place of each`,
    )
  if (Object.keys(ruling.partial).length > 0 || ruling.varying.length > 0)
    return problem(rule, key, `${name} is a parameter: ranks hold it, not terms of it`, 'name dims only')
  const twice = firstTwice(dims.flatMap((cut) => cut ?? []))
  if (twice !== undefined)
    return problem(
      rule,
      key,
      `with it, ${twice} cuts two dims of ${name}`,
      'an axis cuts one dim of a tensor: change this rule, or one before it',
    )
  for (const [dim, cut] of dims.entries()) {
    const { axis, size } = seen[dim]!
    const parts = sizeOver(actor, cut ?? [])
    // The vocabulary is padded.
    if (axis !== 'vocab' && size % parts !== 0)
      return problem(rule, key, ...notDivided(name, axis, size, parts))
  }
  return undefined
}

function notDivided(name: string, axis: string, size: number, parts: number): [string, string] {
  const works = nearestWorking(parts, (count) => size % count === 0, Math.min(size, maximumRanks))
  return [
    `the ${size} ${axis === '' ? 'elements of a dim' : `of ${axis}`} of ${name} do not divide into ${parts} parts`,
    `${works.join(' or ')} ${works.length === 1 && works[0] === 1 ? 'part' : 'parts'} would work`,
  ]
}

interface SeenDim {
  readonly axis: string
  readonly size: number
}

/** The dim as it may be cut, heads as a whole each; then what is inside of a head. */
function headsOf(axis: string, size: number, shape: ModelShape): SeenDim[] {
  if (axis === 'kvHeads')
    return [
      { axis, size: shape.kvHeads },
      { axis: '', size: size / shape.kvHeads },
    ]
  if (axis === 'heads' || axis === 'qkv') {
    const { heads } = shape
    return [
      { axis: 'heads', size: heads },
      { axis: '', size: size / heads / (axis === 'qkv' ? 3 : 1) },
    ]
  }
  return [{ axis, size }]
}

/** The dims that a merged one is made of. */
function factorsOf(axis: string, size: number, shape: ModelShape): SeenDim[] {
  const heads = headsOf(axis, size, shape)
  return axis === 'qkv' ? [{ axis: '', size: 3 }, ...heads] : heads
}
