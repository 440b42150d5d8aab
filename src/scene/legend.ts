import { margin } from './layout.ts'
import { fillToken, lookOf } from './looks.ts'
import { families, type Token, tones } from './tokens.ts'
import type { Mark, SceneItem } from './types.ts'
import { cleanText, fitText, textWidth } from './words.ts'

/** What a drawing has in it that a reader may need explained. */
export interface LegendContent {
  readonly phases: readonly string[]
  /** The most chunks that an actor has. */
  readonly chunks: number
  readonly strips: boolean
  readonly memory: boolean
  readonly capacity: boolean
}

const size = 11
const lineHeight = 18
const swatch = { width: 16, height: 11 }
const mostPhases = 24

interface Key {
  readonly text: string
  readonly fills: readonly (readonly [Token, Mark])[]
  readonly sign?: 'peak' | 'capacity'
}

/** The legend, in lines from `y` on, and where it ends. Phases of one look share an entry. */
export function drawLegend(
  content: LegendContent,
  width: number,
  y: number,
): { readonly items: readonly SceneItem[]; readonly bottom: number } {
  const items: SceneItem[] = []
  let x = margin
  let line = 0
  for (const { text, fills, sign } of keysOf(content)) {
    const shown = fitText(text, width - 2 * margin - 120, size, 'text')
    const signs = sign === undefined ? fills.length * (swatch.width + 2) : swatch.width + 2
    const needed = signs + 4 + textWidth(shown, size, 'text')
    if (x > margin && x + needed > width - margin) {
      x = margin
      line++
    }
    const top = y + line * lineHeight
    fills.forEach(([fill, mark], index) => {
      const at = x + index * (swatch.width + 2)
      items.push({ kind: 'rect', role: 'key', x: at, y: top, ...swatch, fill, mark, edged: false })
    })
    const middle = top + swatch.height / 2
    if (sign === 'capacity')
      items.push({
        kind: 'line',
        x1: x,
        y1: middle,
        x2: x + swatch.width,
        y2: middle,
        stroke: sign,
        dashed: true,
      })
    if (sign === 'peak') items.push(peakMark(x + swatch.width / 2, top, top + swatch.height))
    items.push({
      kind: 'text',
      x: Math.round(x + signs + 4),
      y: top + swatch.height - 1,
      text: shown,
      size,
      anchor: 'start',
      fill: 'muted',
      face: 'text',
    })
    x = Math.round(x + needed + 16)
  }
  return { items, bottom: y + (line + 1) * lineHeight }
}

export function peakMark(x: number, top: number, bottom: number): SceneItem {
  return { kind: 'line', x1: x, y1: top, x2: x, y2: bottom, stroke: 'peak', dashed: false }
}

function keysOf({ phases, chunks, strips, memory, capacity }: LegendContent): Key[] {
  const keys = new Map<string, Key>()
  let unnamed = 0
  const order = (phase: string): number => families.indexOf(lookOf(phase).family)
  for (const phase of [...phases].sort((a, b) => order(a) - order(b))) {
    const { letter, name, family, mark } = lookOf(phase)
    const text = cleanText(letter === '' || letter === name ? name : `${letter} ${name}`, 40)
    if (keys.size < mostPhases || keys.has(text))
      keys.set(text, { text, fills: [[fillToken(family, 0), mark]] })
    else unnamed++
  }
  const list = [...keys.values()]
  if (unnamed > 0) list.push({ text: `${unnamed} further kinds`, fills: [[fillToken('other', 0), 'plain']] })
  list.push({ text: 'idle', fills: [['idle', 'hatch']] })
  if (chunks > 1) {
    const family = lookOf(phases[0] ?? 'F').family
    const shades = tones.slice(0, Math.min(chunks, tones.length))
    list.push({
      text: `lighter: later chunks (0 to ${chunks - 1})`,
      fills: shades.map((tone) => [fillToken(family, tone), 'plain'] as const),
    })
  }
  if (strips)
    list.push({ text: 'height: share of time of boxes too small to draw', fills: [['muted', 'plain']] })
  if (memory) list.push({ text: 'peak of memory', fills: [], sign: 'peak' })
  if (capacity) list.push({ text: 'capacity', fills: [], sign: 'capacity' })
  return list
}
