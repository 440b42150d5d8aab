import { describeNodes, type Path, type SchemaNode } from '../../src/plan/describe.ts'
import { planJsonSchema } from '../../src/plan/index.ts'

/** One key of a plan. */
interface PlanKey {
  readonly path: string
  readonly values: string
  readonly byDefault: string
  readonly meaning: string
}

/** Every key of the plan document as one Markdown table, made from its JSON Schema. */
export function planKeyTable(): string {
  const rows = keysOf(planJsonSchema() as SchemaNode, []).map(
    ({ path, values, byDefault, meaning }) => `| \`${path}\` | ${values} | ${byDefault} | ${meaning} |`,
  )
  return ['| key | value | default | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n')
}

type Described = SchemaNode & { readonly description?: string; readonly required?: readonly string[] }

/** Mappings that have a name of their own (schedules, optimizers, learning rates) are on pages of theirs. */
function keysOf(schema: Described, path: Path): PlanKey[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]): PlanKey[] => {
    const inner = [...path, key]
    const node = property as Described
    const plain = node.type === 'object'
    if (plain) return keysOf(node, inner)
    return [
      {
        path: inner.join('.'),
        values: describeNodes(variants(node)).replaceAll('|', '\\|'),
        byDefault: schema.required?.includes(key) === true ? 'must be given' : defaultOf(node),
        meaning: node.description ?? '',
      },
      ...plainVariant(node, inner),
    ]
  })
}

/** The keys of a mapping that may stand in place of a short form, as `data: {file: …}`. */
function plainVariant(node: Described, path: Path): PlanKey[] {
  const mappings = variants(node).filter((variant) => variant.properties !== undefined)
  if (mappings.length === 0 || mappings.some((mapping) => isNamed(mapping))) return []
  const found = new Map<string, PlanKey>()
  for (const mapping of mappings)
    for (const key of keysOf(mapping as Described, path)) if (!found.has(key.path)) found.set(key.path, key)
  return [...found.values()]
}

function isNamed(node: SchemaNode): boolean {
  return Object.values(node.properties ?? {}).some((property) => typeof property.const === 'string')
}

function variants(node: SchemaNode): readonly SchemaNode[] {
  const inner = node.anyOf ?? node.oneOf
  return inner === undefined || node.title !== undefined ? [node] : inner.flatMap(variants)
}

function defaultOf({ default: value }: SchemaNode): string {
  if (value === undefined || value === null) return 'not set'
  if (typeof value !== 'object') return `\`${String(value)}\``
  const given = Object.entries(value).filter(([, item]) => item !== null)
  if (given.length === 0) return 'not set'
  return `\`{ ${given.map(([key, item]) => `${key}: ${String(item)}`).join(', ')} }\``
}
