import type { OpName } from '../../graph/index.ts'
import { compositeRules } from './composites.ts'
import { elementwiseRules } from './elementwise.ts'
import { generatorRules } from './generators.ts'
import { movementRules } from './movement.ts'
import type { LayoutRule, LayoutRules } from './notation.ts'
import { productRules } from './products.ts'
import { routingRules } from './routing.ts'

/** How every op may be cut. */
export const layoutRules: LayoutRules = {
  ...generatorRules,
  ...elementwiseRules,
  ...movementRules,
  ...productRules,
  ...routingRules,
  ...compositeRules,
}

/** The rule of an op whose name is known only when running. */
export function layoutRuleOf(op: OpName): LayoutRule<OpName> {
  return layoutRules[op] as unknown as LayoutRule<OpName>
}
