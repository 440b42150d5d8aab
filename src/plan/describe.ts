/** The parts of a JSON Schema (as `planJsonSchema` makes it) that messages are made from. */
export interface SchemaNode {
  readonly title?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly SchemaNode[]
  readonly oneOf?: readonly SchemaNode[]
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly items?: SchemaNode
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
}

export type Path = readonly (string | number)[]

function variants(node: SchemaNode): readonly SchemaNode[] {
  const inner = node.anyOf ?? node.oneOf
  return inner === undefined || node.title !== undefined ? [node] : inner.flatMap(variants)
}

/**
 * The variants of what may stand at `path`. Of mappings that name their kind (`name: sgd`), only the one that `value`,
 * the whole document, names.
 */
export function nodesAt(schema: SchemaNode, path: Path, value: unknown): readonly SchemaNode[] {
  let nodes = variants(schema)
  let at = value
  for (const key of path) {
    nodes = named(nodes, at).flatMap((node) => {
      const next = typeof key === 'number' ? node.items : ownProperty(node.properties, key)
      return next === undefined ? [] : variants(next)
    })
    at = isMapping(at) ? ownProperty(at, String(key)) : Array.isArray(at) ? at[Number(key)] : undefined
  }
  return named(nodes, at)
}

/** Of several mappings, those that `value` says it is; all where it says nothing, or nothing known. */
function named(nodes: readonly SchemaNode[], value: unknown): readonly SchemaNode[] {
  if (!isMapping(value)) return nodes
  const says = (node: SchemaNode): boolean =>
    Object.entries(node.properties ?? {}).some(
      ([key, property]) => typeof property.const === 'string' && ownProperty(value, key) === property.const,
    )
  const fitting = nodes.filter(says)
  if (fitting.length > 0) return fitting
  // Where the name is left out, it is the one that is so by default.
  return nodes.filter((node) =>
    Object.entries(node.properties ?? {}).every(
      ([key, { const: name, default: byDefault }]) =>
        typeof name !== 'string' || Object.hasOwn(value, key) || name === byDefault,
    ),
  )
}

/** Keys that a mapping at `path` may have. */
export function keysAt(schema: SchemaNode, path: Path, value: unknown): readonly string[] {
  const keys = nodesAt(schema, path, value).flatMap((node) => Object.keys(node.properties ?? {}))
  return [...new Set(keys)].filter((key) => key !== '$schema')
}

/** What may stand there, in words: `a whole number from 1 to 4096, or a list of whole numbers`. */
export function describeNodes(nodes: readonly SchemaNode[]): string {
  const words = nodes.flatMap((node) => describeNode(node) ?? [])
  const keys = nodes.flatMap((node) => Object.keys(node.properties ?? {})).filter((key) => key !== '$schema')
  if (keys.length > 0) words.push(`a mapping (${[...new Set(keys)].join(', ')})`)
  const shown = [...new Set(words)].sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  return shown.join(', or ')
}

function describeNode(node: SchemaNode): string | undefined {
  if (node.properties !== undefined) return undefined
  if (node.title !== undefined) return node.title
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum !== undefined)
    return node.enum.length === 1 ? String(node.enum[0]) : `one of ${node.enum.join(', ')}`
  if (typeof node.type === 'object')
    return node.type.flatMap((type) => describeNode({ ...node, type }) ?? []).join(', or ')
  switch (node.type) {
    case 'integer':
      return `a whole number${describeRange(node)}`
    case 'number':
      return `a number${describeRange(node)}`
    case 'string':
      return 'text'
    case 'boolean':
      return 'true or false'
    case 'null':
      return 'null'
    case 'array':
      return `a list, each ${describeNodes(variants(node.items ?? {}))}`
    default:
      return undefined
  }
}

function describeRange(node: SchemaNode): string {
  const maximum = node.maximum === Number.MAX_SAFE_INTEGER ? undefined : node.maximum
  if (node.minimum !== undefined && maximum !== undefined) return ` from ${node.minimum} to ${maximum}`
  const limits = [
    node.minimum === undefined ? [] : [`at least ${node.minimum}`],
    node.exclusiveMinimum === undefined ? [] : [`above ${node.exclusiveMinimum}`],
    maximum === undefined ? [] : [`at most ${maximum}`],
    node.exclusiveMaximum === undefined ? [] : [`below ${node.exclusiveMaximum}`],
  ].flat()
  return limits.length === 0 ? '' : ` ${limits.join(' and ')}`
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function ownProperty<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined
}
