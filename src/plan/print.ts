import { Document, isMap, isScalar, isSeq } from 'yaml'
import { writeDocument } from './document.ts'
import type { PlanDocument } from './types.ts'

/** Canonical YAML, every decision written out: `parsePlan(printPlan(plan))` equals `plan`. */
export function printPlan(plan: PlanDocument): string {
  const yaml = new Document(writeDocument(plan), { version: '1.2' })
  if (isMap(yaml.contents))
    for (const { value } of yaml.contents.items) {
      const isBlock =
        isMap(value) && value.items.some((item) => isScalar(item.value) && isLong(item.value.value))
      if ((isMap(value) || isSeq(value)) && !isBlock) value.flow = true
    }
  return yaml.toString({ lineWidth: 0, flowCollectionPadding: true })
}

/** Text of several lines is easier to read, and to keep, as a block. */
function isLong(value: unknown): boolean {
  return typeof value === 'string' && value.includes('\n')
}
