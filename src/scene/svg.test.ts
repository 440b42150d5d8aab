import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeScene, palettes, sceneToSvg, type Timeline, tokens } from './index.ts'
import { lookOf } from './looks.ts'
import { families, hatchedFamilies, tones } from './tokens.ts'

const example: Timeline = {
  title: 'two ranks',
  unit: 'units',
  end: 4,
  notes: ['Bubble 1/4.'],
  rows: [0, 1].map((row) => ({
    label: `rank ${row}`,
    boxes: ['F', 'B', 'I', 'W', 'U', 'R', 'wait', 'mine'].map((phase, at) => ({
      start: at / 2,
      end: (at + 1) / 2,
      phase,
      chunk: row,
      stage: row,
      microbatch: at,
    })),
    memory: {
      unit: 'bytes',
      capacity: 2048,
      peak: { value: 1024, at: 1 },
      points: [
        { time: 0, value: 512 },
        { time: 1, value: 1024 },
      ],
    },
  })),
}

/** Tags nest, attributes are quoted and appear once, entities are XML's own, characters are XML's. Returns the texts. */
function checkXml(xml: string): string[] {
  const texts: string[] = []
  const open: string[] = []
  // XML 1.0, production 2.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(xml).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/)
  expect(xml).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/)
  const token = /<(\/?)([a-zA-Z]+)((?:\s+[a-zA-Z][a-zA-Z:0-9-]*="[^"<]*")*)\s*(\/?)>|([^<]+)/gy
  let at = 0
  for (let match = token.exec(xml); match !== null; match = token.exec(xml)) {
    at = token.lastIndex
    const [whole, closing, name = '', attributes = '', empty, text] = match
    expect(whole.replace(/&(?:amp|lt|gt|quot|#39);/g, '')).not.toContain('&')
    if (text !== undefined) {
      expect(open.length > 0 || text.trim() === '').toBe(true)
      texts.push(text)
      continue
    }
    const names = [...attributes.matchAll(/\s([a-zA-Z:0-9-]+)=/g)].map((one) => one[1])
    expect(new Set(names).size).toBe(names.length)
    if (closing === '/') expect(open.pop()).toBe(name)
    else if (empty !== '/') open.push(name)
  }
  expect(at).toBe(xml.length)
  expect(open).toEqual([])
  return texts
}

describe('sceneToSvg', () => {
  it.each(['light', 'dark', 'auto'] as const)('is well formed and complete, %s', (theme) => {
    const svg = sceneToSvg(makeScene(example), { theme })
    const texts = checkXml(svg)
    expect(svg).toMatch(
      /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" [^>]*role="img" aria-label="two ranks\. [^"]+"/,
    )
    expect(texts).toEqual(
      expect.arrayContaining(['two ranks', 'rank 1', 'Bubble 1/4.', 'F0', 'W3', 'idle 0.0%']),
    )
    expect(texts).toContain('W backward for weights, stage 1, micro-batch 3, 1.5 units – 2 units (0.5 units)')
    expect(svg).toContain('<pattern id="mw-idle-hatch"')
    // A reference leads somewhere; a definition is referred to.
    const ids = [...svg.matchAll(/ id="([^"]+)"/g)].map((match) => match[1])
    const references = [...svg.matchAll(/url\(#([^)]+)\)/g)].map((match) => match[1])
    expect(new Set(ids).size).toBe(ids.length)
    expect(new Set(references)).toEqual(new Set(ids))
  })

  it('names colours in one theme, or defines what it uses for both', () => {
    const scene = makeScene(example)
    const [light, dark, auto] = (['light', 'dark', 'auto'] as const).map((theme) =>
      sceneToSvg(scene, { theme }),
    )
    expect(light).not.toContain('var(')
    expect(light).toContain(`fill="${palettes.light.surface}"`)
    expect(dark).toContain(`fill="${palettes.dark.surface}"`)
    expect(dark).not.toContain(palettes.light.text)
    const [first, second] = auto!.split('@media (prefers-color-scheme:dark)')
    const used = new Set([...auto!.matchAll(/var\((--[^)]+)\)/g)].map((match) => match[1]!))
    expect(used.size).toBeGreaterThan(10)
    for (const property of used) {
      expect(first).toContain(`${property}:#`)
      expect(second).toContain(`${property}:#`)
    }
  })

  it('differs in nothing but colour between the themes, and not at all between calls', () => {
    const plain = (svg: string): string => svg.replace(/#[0-9a-f]{6}/g, '#')
    const scene = makeScene(example)
    expect(plain(sceneToSvg(scene, { theme: 'dark' }))).toBe(plain(sceneToSvg(scene, { theme: 'light' })))
    expect(sceneToSvg(makeScene(structuredClone(example)))).toBe(sceneToSvg(scene))
  })

  it('keeps drawings on one page apart by their prefix', () => {
    const svg = sceneToSvg(makeScene(example), { theme: 'auto', prefix: 'left"><b' })
    checkXml(svg)
    expect(svg).toContain('class="leftb"')
    expect(svg).not.toMatch(/mw-/)
  })

  it('keeps any text text', () => {
    const hostile = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'grapheme' }),
      fc.array(fc.nat({ max: 0xffff })).map((codes) => String.fromCharCode(...codes)),
      fc.constantFrom(
        '</title><script>alert(1)</script>',
        '"onload="x',
        ']]>',
        '&#0;',
        '\u202egnp',
        'a'.repeat(1e5),
      ),
    )
    fc.assert(
      fc.property(hostile, (text) => {
        const box = { start: 0, end: 4, phase: text, label: text }
        const lanes = [{ name: text, boxes: [box] }]
        const svg = sceneToSvg(
          makeScene({ ...example, title: text, notes: [text], rows: [{ label: text, boxes: [box], lanes }] }),
        )
        checkXml(svg)
        expect(svg.length).toBeLessThan(20_000)
        expect(svg).not.toMatch(/<script|\u202e/)
      }),
      { numRuns: 100 },
    )
  })

  it('has a letter or a mark for every phase, no two alike in one lane', () => {
    const compute = ['F', 'B', 'I', 'W', 'U', 'R'].map(lookOf)
    expect(new Set(compute.map(({ letter }) => letter)).size).toBe(compute.length)
    expect(new Set(compute.map(({ mark }) => mark)).size).toBe(compute.length)
  })
})

/** Contrast ratio of WCAG 2.2. */
function contrast(a: string, b: string): number {
  const [low, high] = [a, b]
    .map((colour) => {
      const [red, green, blue] = [1, 3, 5].map((at) => {
        const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
      })
      return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
    })
    .sort((x, y) => x - y)
  return (high! + 0.05) / (low! + 0.05)
}

describe.each(['light', 'dark'] as const)('colours, %s', (theme) => {
  const palette = palettes[theme]

  it('are all colours', () => {
    for (const token of tokens) expect(palette[token]).toMatch(/^#[0-9a-f]{6}$/)
  })

  it('let text be read on its box and on the surface', () => {
    expect(contrast('#000000', '#ffffff')).toBeCloseTo(21)
    for (const token of ['text', 'muted'] as const)
      expect(contrast(palette[token], palette.surface)).toBeGreaterThanOrEqual(4.5)
    for (const family of families)
      for (const tone of tones) {
        const ink = palette[`${family}-${tone}-ink`]
        expect([family, tone, contrast(ink, palette[`${family}-${tone}`]) >= 4.5]).toEqual([
          family,
          tone,
          true,
        ])
        if (hatchedFamilies.includes(family))
          expect(contrast(ink, palette[`${family}-${tone}-mark`])).toBeGreaterThanOrEqual(4.5)
      }
  })

  it('set marks and graphics off (WCAG 1.4.11 asks 3:1 of what carries meaning alone)', () => {
    for (const token of ['peak', 'capacity'] as const) {
      expect(contrast(palette[token], palette.memory)).toBeGreaterThanOrEqual(3)
      expect(contrast(palette[token], palette.lane)).toBeGreaterThanOrEqual(3)
    }
    for (const family of families) {
      expect(contrast(palette[`${family}-0`], palette.idle)).toBeGreaterThanOrEqual(
        family === 'wait' ? 2.5 : 3,
      )
      for (const tone of tones)
        expect(contrast(palette[`${family}-${tone}-mark`], palette[`${family}-${tone}`])).toBeGreaterThan(1.2)
    }
  })

  it('have ever lighter tones', () => {
    for (const family of families)
      for (const tone of [1, 2, 3] as const)
        expect(contrast(palette[`${family}-${tone}`], '#ffffff')).toBeLessThan(
          contrast(palette[`${family}-${(tone - 1) as 0 | 1 | 2}`], '#ffffff'),
        )
  })

  it('hatch every family that is said to be hatched', () => {
    for (const phase of ['F', 'B', 'I', 'W', 'U', 'R', 'G', 'X', 'S', 'wait', 'move', 'transfer', 'mine'])
      expect(lookOf(phase).mark === 'hatch').toBe(hatchedFamilies.includes(lookOf(phase).family))
  })
})
