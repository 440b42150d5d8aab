/** What a colour is for. Nothing else in a scene names a colour. */
export type Token = PlainToken | FillToken | `${FillToken}-ink` | `${FillToken}-mark`

export const plainTokens = [
  'surface',
  'text',
  'muted',
  'grid',
  'lane',
  'idle',
  'idle-mark',
  'memory',
  'memory-edge',
  'peak',
  'capacity',
] as const
export type PlainToken = (typeof plainTokens)[number]

export const families = [
  'forward',
  'backward',
  'inputGradient',
  'weightGradient',
  'update',
  'recompute',
  'gather',
  'release',
  'reduce',
  'transfer',
  'move',
  'wait',
  'other',
] as const
export type Family = (typeof families)[number]

/** Families whose boxes are hatched all over. */
export const hatchedFamilies: readonly Family[] = ['recompute', 'wait']

/** From the first chunk of an actor to its last, ever lighter. */
export const tones = [0, 1, 2, 3] as const
export type Tone = (typeof tones)[number]
export type FillToken = `${Family}-${Tone}`

export type ThemeName = 'light' | 'dark'
/** `#rrggbb` of every token. */
export type Palette = Readonly<Record<Token, string>>

interface Base {
  readonly plain: Readonly<Record<PlainToken, string>>
  readonly families: Readonly<Record<Family, string>>
  /** How much white each tone has. */
  readonly lightening: readonly number[]
}

const light: Base = {
  plain: {
    surface: '#ffffff',
    text: '#1b1f24',
    muted: '#59626d',
    grid: '#dfe3e8',
    lane: '#f3f5f7',
    idle: '#f6f7f9',
    'idle-mark': '#d5dae0',
    memory: '#d8dfe8',
    'memory-edge': '#7d8a9a',
    peak: '#b3261e',
    capacity: '#b3261e',
  },
  families: {
    forward: '#2e6cb8',
    backward: '#b9560f',
    inputGradient: '#0d7a76',
    weightGradient: '#4b7a1e',
    update: '#6a4ea3',
    recompute: '#54719b',
    gather: '#86691a',
    release: '#6f6a5c',
    reduce: '#a13a6d',
    transfer: '#5c6673',
    move: '#7c5a42',
    wait: '#8b95a1',
    other: '#545c66',
  },
  lightening: [0, 0.42, 0.6, 0.76],
}

const dark: Base = {
  plain: {
    surface: '#14171b',
    text: '#e4e8ec',
    muted: '#98a2ad',
    grid: '#2a3037',
    lane: '#1a1e23',
    idle: '#1a1e23',
    'idle-mark': '#343b44',
    memory: '#323d49',
    'memory-edge': '#7f8c9b',
    peak: '#ff8a80',
    capacity: '#ff8a80',
  },
  families: {
    forward: '#4a8ad8',
    backward: '#d97f2e',
    inputGradient: '#2aa39c',
    weightGradient: '#74a741',
    update: '#9a7fd6',
    recompute: '#7b98c4',
    gather: '#bd9a3a',
    release: '#9c9684',
    reduce: '#d36d9f',
    transfer: '#8d98a6',
    move: '#b08a6c',
    wait: '#77818d',
    other: '#87909b',
  },
  lightening: [0, 0.26, 0.46, 0.64],
}

/** Colours of every token in both themes. Text on a box has at least 4.5:1 (WCAG 2.2, 1.4.3). */
export const palettes: Readonly<Record<ThemeName, Palette>> = {
  light: makePalette(light),
  dark: makePalette(dark),
}

/** All tokens, in a fixed order. */
export const tokens: readonly Token[] = Object.keys(palettes.light) as Token[]

function makePalette(base: Base): Palette {
  const entries: [Token, string][] = plainTokens.map((token) => [token, base.plain[token]])
  for (const family of families)
    for (const tone of tones) {
      const fill = mix(base.families[family], '#ffffff', base.lightening[tone] ?? 0)
      const ink = luminance(fill) > 0.179 ? '#07090c' : '#ffffff'
      const mark = markOn(fill, ink, hatchedFamilies.includes(family), base)
      entries.push(
        [`${family}-${tone}`, fill],
        [`${family}-${tone}-ink`, ink],
        [`${family}-${tone}-mark`, mark],
      )
    }
  return Object.fromEntries(entries) as Record<Token, string>
}

/** Bands at the edges of a box stand out from it; under a hatch's lines the text must still be read. */
function markOn(fill: string, ink: string, hatched: boolean, theme: Base): string {
  const darker = mix(fill, '#000000', 0.36)
  const dark = hatched ? contrast(darker, ink) >= 4.5 : luminance(theme.plain.surface) > 0.5
  return dark ? darker : mix(fill, '#ffffff', 0.6)
}

function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16))
}

function mix(from: string, to: string, share: number): string {
  const target = channels(to)
  const mixed = channels(from).map((value, at) => Math.round(value + ((target[at] ?? 0) - value) * share))
  return `#${mixed.map((value) => value.toString(16).padStart(2, '0')).join('')}`
}

/** Relative luminance (WCAG 2.2). At 0.179 black and white stand out equally. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channels(colour).map((value) => {
    const share = value / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
