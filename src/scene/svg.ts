import { assertNever } from '../base/index.ts'
import { palettes, type ThemeName, type Token, tokens } from './tokens.ts'
import type { Mark, Scene, SceneArea, SceneItem, SceneLine, SceneRect, SceneText } from './types.ts'
import { cleanText } from './words.ts'

export interface SvgOptions {
  /** `auto` follows the reader's preference, where CSS is understood. Default `light`. */
  readonly theme?: ThemeName | 'auto'
  /** Begins every id and class, so that several drawings may share a page. Default `mw`; letters only. */
  readonly prefix?: string
}

const faces = {
  text: 'system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif',
  number: 'ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace',
} as const

interface Printer {
  readonly prefix: string
  readonly paint: (token: Token) => string
  /** Fills that need a definition, by id. */
  readonly definitions: Map<string, string>
}

/** A scene as an SVG document. The same scene and options give the same bytes. */
export function sceneToSvg(scene: Scene, options: SvgOptions = {}): string {
  const { theme = 'light' } = options
  const prefix = (options.prefix ?? 'mw').replace(/[^a-zA-Z]/g, '') || 'mw'
  const paint = (token: Token): string =>
    theme === 'auto' ? `var(--${prefix}-${token})` : palettes[theme][token]
  const printer: Printer = { prefix, paint, definitions: new Map() }
  const items = scene.items.map((item) => printItem(item, printer))
  const { width, height } = scene
  const name = escapeXml([scene.title, scene.description].filter((part) => part !== '').join('. '))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="${prefix}" role="img" aria-label="${name}" ` +
      `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<style>${styles(prefix)}${theme === 'auto' ? properties(scene, prefix) : ''}</style>`,
    printer.definitions.size === 0 ? '' : `<defs>${[...printer.definitions.values()].join('')}</defs>`,
    `<rect width="${width}" height="${height}" fill="${paint('surface')}"/>`,
    ...items,
    '</svg>\n',
  ]
    .filter((line) => line !== '')
    .join('\n')
}

function styles(prefix: string): string {
  return (
    `.${prefix} text{font-family:${faces.text};font-variant-numeric:tabular-nums}` +
    `.${prefix} .${prefix}-n{font-family:${faces.number}}` +
    `.${prefix} .${prefix}-h{font-weight:600}`
  )
}

/** Only the colours that the scene uses. */
function properties(scene: Scene, prefix: string): string {
  const used = new Set<Token>(['surface', 'idle-mark'])
  for (const item of scene.items) {
    if (item.kind !== 'line') used.add(item.fill)
    if (item.kind === 'line' || item.kind === 'area') used.add(item.stroke)
    const marked = item.kind === 'rect' ? markToken(item.fill) : undefined
    if (marked !== undefined) used.add(marked)
  }
  const block = (theme: ThemeName): string =>
    `.${prefix}{${tokens
      .filter((token) => used.has(token))
      .map((token) => `--${prefix}-${token}:${palettes[theme][token]}`)
      .join(';')}}`
  return `${block('light')}@media (prefers-color-scheme:dark){${block('dark')}}`
}

function printItem(item: SceneItem, printer: Printer): string {
  switch (item.kind) {
    case 'rect':
      return printRect(item, printer)
    case 'line':
      return printLine(item, printer)
    case 'text':
      return printText(item, printer)
    case 'area':
      return printArea(item, printer)
    default:
      return assertNever(item)
  }
}

function printRect(rect: SceneRect, printer: Printer): string {
  const { x, y, width, height, fill, edged, tooltip } = rect
  const edge = edged ? ` stroke="${printer.paint('surface')}" stroke-width="0.75"` : ''
  const shape =
    `<rect x="${decimal(x)}" y="${decimal(y)}" width="${decimal(width)}" height="${decimal(height)}" ` +
    `fill="${fillOf(fill, rect.mark, printer)}"${edge}`
  return tooltip === undefined ? `${shape}/>` : `${shape}><title>${escapeXml(tooltip)}</title></rect>`
}

function printLine({ x1, y1, x2, y2, stroke, dashed }: SceneLine, { paint }: Printer): string {
  const dash = dashed ? ' stroke-dasharray="4 3"' : ''
  return (
    `<line x1="${decimal(x1)}" y1="${decimal(y1)}" x2="${decimal(x2)}" y2="${decimal(y2)}" ` +
    `stroke="${paint(stroke)}"${dash}/>`
  )
}

function printText({ x, y, text, size, anchor, fill, face }: SceneText, { paint, prefix }: Printer): string {
  const faceClass = face === 'text' ? '' : ` class="${prefix}-${face === 'number' ? 'n' : 'h'}"`
  const side = anchor === 'start' ? '' : ` text-anchor="${anchor}"`
  return (
    `<text x="${decimal(x)}" y="${decimal(y)}" font-size="${size}"${side}${faceClass} fill="${paint(fill)}">` +
    `${escapeXml(text)}</text>`
  )
}

function printArea({ points, base, fill, stroke, tooltip }: SceneArea, { paint }: Printer): string {
  const path = points.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${decimal(x)} ${decimal(y)}`).join('')
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined) return ''
  const closed = `${path}L${decimal(last[0])} ${decimal(base)}L${decimal(first[0])} ${decimal(base)}Z`
  const title = tooltip === undefined ? '' : `<title>${escapeXml(tooltip)}</title>`
  return (
    `<path d="${closed}" fill="${paint(fill)}">${title}</path>` +
    `<path d="${path}" fill="none" stroke="${paint(stroke)}"/>`
  )
}

function markToken(fill: Token): Token | undefined {
  if (fill === 'idle') return 'idle-mark'
  const candidate = `${fill}-mark` as Token
  return candidate in palettes.light ? candidate : undefined
}

/** A plain colour, or a reference to a gradient (bands at the edges of the box, whatever its size) or hatch. */
function fillOf(fill: Token, mark: Mark, { paint, prefix, definitions }: Printer): string {
  const over = markToken(fill)
  if (mark === 'plain' || over === undefined) return paint(fill)
  const id = `${prefix}-${fill}-${mark}`
  if (!definitions.has(id)) definitions.set(id, definitionOf(id, mark, paint(fill), paint(over)))
  return `url(#${id})`
}

/** Share of a box that a band takes. */
const band = 0.14

function definitionOf(id: string, mark: Exclude<Mark, 'plain'>, fill: string, over: string): string {
  switch (mark) {
    case 'hatch':
      return (
        `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
        `<rect width="6" height="6" fill="${fill}"/><rect width="1.2" height="6" fill="${over}"/></pattern>`
      )
    case 'top':
      return gradient(id, false, [over, band, fill])
    case 'bottom':
      return gradient(id, false, [fill, 1 - band, over])
    case 'both':
      return gradient(id, false, [over, band, fill, 1 - band, over])
    case 'ends':
      return gradient(id, true, [over, band / 2, fill, 1 - band / 2, over])
    default:
      return assertNever(mark)
  }
}

/** Colours with the place of each change between them: hard stops. */
function gradient(id: string, across: boolean, parts: readonly (string | number)[]): string {
  const stops: string[] = []
  for (let at = 1; at < parts.length; at += 2)
    for (const side of [-1, 1]) stops.push(`<stop offset="${parts[at]}" stop-color="${parts[at + side]}"/>`)
  const direction = across ? 'x2="1" y2="0"' : 'x2="0" y2="1"'
  return `<linearGradient id="${id}" x1="0" y1="0" ${direction}>${stops.join('')}</linearGradient>`
}

/** At most two decimals, never an exponent. */
function decimal(value: number): string {
  return value.toFixed(2).replace(/\.?0+$/, '')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** What XML may hold, and so that it stays text. */
function escapeXml(text: string): string {
  return cleanText(text, 1000).replace(/[&<>"']/g, (character) => entities[character] ?? '')
}
