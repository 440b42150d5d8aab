import { describeNodes, type Path, type SchemaNode } from '../../src/plan/describe.ts'
import { formatSize, planJsonSchema } from '../../src/plan/index.ts'

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

/** As `planJsonSchema` has it. */
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
        byDefault: schema.required?.includes(key) === true ? 'must be given' : defaultOf(node, inner),
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
  const isEverywhere = (key: string): boolean =>
    mappings.every(({ properties }) => properties?.[key] !== undefined)
  const choice = [...new Set(mappings.flatMap(({ properties }) => Object.keys(properties ?? {})))]
    .filter((key) => !isEverywhere(key))
    .map((key) => `\`${key}\``)
    .join(' or ')
  for (const mapping of mappings)
    for (const key of keysOf(mapping as Described, path))
      if (!found.has(key.path))
        found.set(key.path, isEverywhere(key.path.split('.').at(-1)!) ? key : { ...key, byDefault: choice })
  return [...found.values()]
}

function isNamed(node: SchemaNode): boolean {
  return Object.values(node.properties ?? {}).some((property) => typeof property.const === 'string')
}

function variants(node: SchemaNode): readonly SchemaNode[] {
  const inner = node.anyOf ?? node.oneOf
  return inner === undefined || node.title !== undefined ? [node] : inner.flatMap(variants)
}

function defaultOf({ default: value }: SchemaNode, path: Path): string {
  if (value === undefined || value === null) return 'not set'
  if (path.at(-1)?.toString().endsWith('Bytes') === true) return `\`${formatSize(Number(value))}\``
  if (typeof value !== 'object') return `\`${String(value)}\``
  const given = Object.entries(value).filter(([, item]) => item !== null)
  if (given.length === 0) return 'not set'
  return `\`{ ${given.map(([key, item]) => `${key}: ${String(item)}`).join(', ')} }\``
}

/** Default of `setting` in the mapping that `name` names below `key`; undefined where a plan leaves it open. */
export function planDefault(key: string, name: string, setting: string): unknown {
  const node = (planJsonSchema() as SchemaNode).properties?.[key]
  const mapping = node === undefined ? undefined : variants(node).find((variant) => namesIt(variant, name))
  return mapping?.properties?.[setting]?.default ?? undefined
}

function namesIt(node: SchemaNode, name: string): boolean {
  return Object.values(node.properties ?? {}).some((property) => property.const === name)
}
