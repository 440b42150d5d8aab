import { MeshwrightError } from '../base/index.ts'

/** Reads fields of a `config.json`, remembers which were read, and names field and file when one is wrong. */
export class ConfigFields {
  private readonly fields: Readonly<Record<string, unknown>>
  private readonly source: string
  private readonly path: string
  private readonly read = new Set<string>()

  /** Throws `MODEL_CONFIG_SHAPE` where `json` is not an object. */
  constructor(json: unknown, source: string, path = '') {
    this.source = source
    this.path = path
    if (typeof json !== 'object' || json === null || Array.isArray(json))
      throw this.refuse('MODEL_CONFIG_SHAPE', '', `${path || 'the model config'} is not an object`)
    this.fields = json as Readonly<Record<string, unknown>>
  }

  /** An error about `field`, for the caller to throw. */
  refuse(code: string, field: string, message: string, hint?: string): MeshwrightError {
    const path = [this.path, field].filter((part) => part !== '').join('.')
    return new MeshwrightError(code, message, {
      at: { file: this.source, ...(path === '' ? {} : { path }) },
      ...(hint === undefined ? {} : { hint }),
    })
  }

  /** The value, `undefined` where it is absent or null. Of several names the same thing may have, those given agree. */
  value(...names: readonly string[]): unknown {
    let found: { readonly name: string; readonly value: unknown } | undefined
    for (const name of names) {
      this.read.add(name)
      const value = Object.hasOwn(this.fields, name) ? this.fields[name] : undefined
      if (value === undefined || value === null) continue
      if (found !== undefined && found.value !== value)
        throw this.refuse(
          'MODEL_CONFIG_VALUE',
          name,
          `${found.name} is ${show(found.value)} but ${name}, which means the same, is ${show(value)}`,
        )
      found ??= { name, value }
    }
    return found?.value
  }

  /** Whether the field stands there at all, be it as null. */
  has(name: string): boolean {
    return Object.hasOwn(this.fields, name)
  }

  number(names: readonly string[], otherwise?: number): number {
    const value = this.value(...names) ?? otherwise
    if (value === undefined) throw this.missing(names[0]!)
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw this.refuse('MODEL_CONFIG_VALUE', names[0]!, `${names[0]} is ${show(value)}, not a number`)
    return value
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.value(name) ?? otherwise
    if (typeof value !== 'boolean')
      throw this.refuse('MODEL_CONFIG_VALUE', name, `${name} is ${show(value)}, not true or false`)
    return value
  }

  text(name: string, otherwise?: string): string {
    const value = this.value(name) ?? otherwise
    if (value === undefined) throw this.missing(name)
    if (typeof value !== 'string')
      throw this.refuse('MODEL_CONFIG_VALUE', name, `${name} is ${show(value)}, not a text`)
    return value
  }

  /** The object in a field, or undefined where it is absent. */
  object(name: string): ConfigFields | undefined {
    const value = this.value(name)
    return value === undefined ? undefined : new ConfigFields(value, this.source, name)
  }

  /** Names of fields that nobody asked for. */
  unread(): string[] {
    return Object.keys(this.fields).filter((name) => !this.read.has(name))
  }

  private missing(name: string): MeshwrightError {
    return this.refuse(
      'MODEL_CONFIG_MISSING',
      name,
      `the model config has no ${name}`,
      `give ${name}; without it the model is not determined`,
    )
  }
}

/** A value as an error quotes it: never long. */
export function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`
}
