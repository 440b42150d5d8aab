import type { ResolvedPlan } from '../plan/index.ts'

/** Where a rank stands: `pipeline 0, data 1, tensor 3`; of axes beyond those two only the ones that the plan has. */
export function rankPlace({ ranks }: Pick<ResolvedPlan, 'ranks'>, rank: number): string {
  const { pipeline, data, context, tensor } = ranks[rank]!
  const named: readonly (readonly [string, number, boolean])[] = [
    ['pipeline', pipeline, true],
    ['data', data, true],
    ['context', context, ranks.some((own) => own.context > 0)],
    ['tensor', tensor, ranks.some((own) => own.tensor > 0)],
  ]
  return named.flatMap(([axis, at, isShown]) => (isShown ? [`${axis} ${at}`] : [])).join(', ')
}

/** How the ranks of a replica share its work, in a line; undefined where a replica is one rank. */
export function layoutLine({
  document,
  layout,
}: Pick<ResolvedPlan, 'document' | 'layout'>): string | undefined {
  if (layout === null) return undefined
  const { context, expert, expertTensor } = document.mesh
  const { settings, axes } = layout
  const isCut = (axis: string): boolean =>
    axes.some(({ name }) => name === axis || name.startsWith(`${axis}.`))
  const parts: string[] = []
  if (isCut('context'))
    parts.push(`context ${context} (${settings.context}${settings.zigzag ? ', zig-zag' : ''})`)
  if (isCut('tensor')) {
    const own = axes.filter(({ name }) => name.startsWith('tensor'))
    const sizes = own.map(({ name, size }) => (name === 'tensor' ? `${size}` : `${name.slice(7)} ${size}`))
    const cut = settings.sequence ? ', stream cut along the sequence' : ''
    parts.push(`tensor ${sizes.join(' x ')} (${settings.tensor}${cut})`)
  }
  if (expert > 1) parts.push(`experts over ${expert} ranks`)
  if (expertTensor > 1) parts.push(`each expert over ${expertTensor}`)
  if (settings.rules.length > 0) parts.push(`${settings.rules.length} rules`)
  return parts.length === 0 ? undefined : `layout: ${parts.join(', ')}`
}
