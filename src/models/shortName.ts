import { didYouMean, MeshwrightError } from '../base/index.ts'
import { checkCounts, checkDivides, checkNumbers, checkSizes } from './checks.ts'
import { publicModels } from './publicModels.ts'
import {
  type KeyInfo,
  type KeyValue,
  type KeyValues,
  type ModelFamily,
  modelFamilies,
  modelFromConfig,
} from './registry.ts'
import { parseRopeScaling, printRopeScaling } from './rotary.ts'
import type { Model, ModelConfig } from './types.ts'

/**
 * The model of a short name: a family or a public model, then `:` and overrides, as in
 * `gpt:layers=4,hidden=128,heads=4,context=128` or `gpt2:context=512`. Throws `MODEL_UNKNOWN`, `MODEL_UNKNOWN_KEY`,
 * `MODEL_VALUE`, `MODEL_DUPLICATE_KEY`, and what the family says of sizes that do not go together.
 */
export function modelFromShortName(text: string): Model {
  const colon = text.indexOf(':')
  const name = (colon < 0 ? text : text.slice(0, colon)).trim()
  const { family, keys } = lookUp(name)
  const given: KeyValues = { ...keys, ...parseOverrides(family, colon < 0 ? '' : text.slice(colon + 1)) }
  checkHeads(family, given)
  return modelFromConfig(family.configure(given), { name })
}

/** Whether the name before `:` is one that `modelFromShortName` knows. */
export function isModelName(text: string): boolean {
  const name = text.split(':', 1)[0]!.trim()
  return [...modelFamilies, ...publicModels].some((known) => known.name === name)
}

/** The short form that gives this config back, leaving out what is the default. */
export function printShortName(config: ModelConfig): string {
  const family = modelFamilies.find((candidate) => candidate.name === config.family)!
  const values = config as unknown as KeyValues
  const given: Record<string, KeyValue> = {}
  for (const { name } of family.keys) {
    const value = values[name]!
    const byDefault = (family.configure(given) as unknown as KeyValues)[name]!
    if (printValue(value) !== printValue(byDefault)) given[name] = value
  }
  const overrides = Object.entries(given).map(([key, value]) => `${key}=${printValue(value)}`)
  return overrides.length === 0 ? family.name : `${family.name}:${overrides.join(',')}`
}

function printValue(value: KeyValue): string {
  return typeof value === 'object' ? printRopeScaling(value) : String(value)
}

function lookUp(name: string): { readonly family: ModelFamily; readonly keys: KeyValues } {
  const family = modelFamilies.find((candidate) => candidate.name === name)
  if (family !== undefined) return { family, keys: {} }
  const known = publicModels.find((candidate) => candidate.name === name)
  if (known !== undefined)
    return {
      family: modelFamilies.find((candidate) => candidate.name === known.family)!,
      keys: known.keys,
    }
  const names = [...modelFamilies, ...publicModels].map((candidate) => candidate.name)
  throw new MeshwrightError('MODEL_UNKNOWN', `there is no model "${name}"`, {
    hint: didYouMean(name, names) ?? `known are ${names.join(', ')}`,
  })
}

function parseOverrides(family: ModelFamily, text: string): KeyValues {
  const given: Record<string, KeyValue> = {}
  if (text.trim() === '') return given
  for (const part of text.split(',')) {
    const [name, value, ...rest] = part.split('=').map((piece) => piece.trim())
    if (name === undefined || name === '' || value === undefined || value === '' || rest.length > 0)
      throw new MeshwrightError('MODEL_VALUE', `"${part.trim()}" in a model's name`, {
        hint: `write key=value, as in ${family.name}:layers=4,hidden=128`,
      })
    const info = family.keys.find((key) => key.name === name)
    if (info === undefined) {
      const names = family.keys.map((key) => key.name)
      throw new MeshwrightError('MODEL_UNKNOWN_KEY', `the ${family.name} model has no "${name}"`, {
        hint: didYouMean(name, names) ?? `it has ${names.join(', ')}`,
      })
    }
    if (Object.hasOwn(given, name))
      throw new MeshwrightError('MODEL_DUPLICATE_KEY', `${name} is given twice`, { hint: 'give it once' })
    given[name] = parseValue(info, value)
  }
  return given
}

function parseValue({ name, kind }: KeyInfo, text: string): KeyValue {
  switch (kind) {
    case 'size':
      checkSizes({ [name]: parseNumber(name, text) })
      return Number(text)
    case 'count':
      checkCounts({ [name]: parseNumber(name, text) })
      return Number(text)
    case 'number':
      checkNumbers({ [name]: parseNumber(name, text) })
      return Number(text)
    case 'flag':
      if (text !== 'true' && text !== 'false')
        throw new MeshwrightError('MODEL_VALUE', `${name} is "${text}"`, { hint: `${name} is true or false` })
      return text === 'true'
    case 'ropeScaling':
      return parseRopeScaling(text)
    default:
      if (!kind.includes(text))
        throw new MeshwrightError('MODEL_VALUE', `${name} is "${text}"`, {
          hint: didYouMean(text, kind) ?? `${name} is ${kind.join(' or ')}`,
        })
      return text
  }
}

function parseNumber(name: string, text: string): number {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text))
    throw new MeshwrightError('MODEL_VALUE', `${name} is "${text}"`, { hint: `${name} is a number` })
  return Number(text)
}

/** Says which sizes go together, before a head's width is made from them. */
function checkHeads(family: ModelFamily, given: KeyValues): void {
  if (given['headDim'] !== undefined) return
  const size = (name: string): number =>
    (given[name] ?? family.keys.find((key) => key.name === name)!.default) as number
  checkDivides(
    'MODEL_HEADS',
    { name: 'hidden', size: size('hidden') },
    { name: 'heads', size: size('heads') },
  )
}
