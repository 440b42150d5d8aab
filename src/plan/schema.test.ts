import { expect, it } from 'vitest'
import { planJsonSchema } from './index.ts'

/** As the formatter writes JSON: short lists of plain values on one line, everything else on lines of its own. */
function format(value: unknown, indent = ''): string {
  const inner = `${indent}  `
  if (Array.isArray(value)) {
    const short = `[${value.map((item) => JSON.stringify(item)).join(', ')}]`
    if (value.every((item) => typeof item !== 'object') && indent.length + short.length < 90) return short
    return `[\n${value.map((item) => `${inner}${format(item, inner)}`).join(',\n')}\n${indent}]`
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(
      ([key, item]) => `${inner}${JSON.stringify(key)}: ${format(item, inner)}`,
    )
    return entries.length === 0 ? '{}' : `{\n${entries.join(',\n')}\n${indent}}`
  }
  return JSON.stringify(value)
}

it('the committed JSON Schema is the one the code makes (`vitest -u` writes it)', async () => {
  await expect(`${format(planJsonSchema())}\n`).toMatchFileSnapshot('./plan.schema.json')
})

it('names every generator and optimizer, so that editors offer them', () => {
  const text = JSON.stringify(planJsonSchema())
  for (const word of ['1f1b', 'gpipe', 'warmup', 'adamw', 'sgd', 'beta2', 'cosine', 'mesh'])
    expect(text).toContain(`"${word}"`)
})
