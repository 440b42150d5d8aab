import * as z from 'zod'
import { learningRates, optimizers, type SettingInfo } from '../optimizers/index.ts'
import { type ParameterRule, scheduleGenerators, scheduleLimits } from '../schedule/index.ts'
import { layoutSchema } from './layoutSection.ts'
import { recomputeSchema } from './recompute.ts'
import { sizePattern } from './sizes.ts'
import { zeroSchema } from './zero.ts'

/** Most replicas of an actor, and most ranks of a plan. */
export const maximumRanks = 65_536

/** The registries' parameters, as schemas: one place says what they are. */
function parameterSchema(rule: ParameterRule): z.ZodType {
  if (rule.kind === 'boolean') return z.boolean().default(rule.default).meta({ description: rule.summary })
  const value: z.ZodType =
    rule.kind === 'choice'
      ? z.enum(Object.keys(rule.choices) as [string, ...string[]])
      : z.int().min(rule.minimum).max(rule.maximum)
  const schema = rule.default === null ? value.nullable() : value
  const meaning =
    rule.kind === 'choice' ? Object.entries(rule.choices).map((choice) => choice.join(' = ')) : []
  return schema.default(rule.default as never).meta({ description: [rule.summary, ...meaning].join('; ') })
}

function settingSchema(info: SettingInfo): z.ZodType {
  if (typeof info.default === 'boolean')
    return z.boolean().default(info.default).meta({ description: info.summary })
  const { minimum, above, maximum, below, whole } = info.range ?? {}
  let value: z.ZodNumber = whole ? z.int() : z.number()
  if (minimum !== undefined) value = value.min(minimum)
  if (above !== undefined) value = value.gt(above)
  if (maximum !== undefined) value = value.max(maximum)
  if (below !== undefined) value = value.lt(below)
  const described = value.meta({ description: info.summary })
  return info.default === undefined ? described : described.default(info.default)
}

/** `key: NAME`, or a mapping with the name's own settings; the name may be left out for `byDefault`. */
function namedSchema(
  key: string,
  byDefault: string,
  entries: readonly {
    readonly name: string
    readonly summary: string
    readonly settings: Record<string, z.ZodType>
  }[],
): z.ZodType {
  const options = entries.map(({ name, summary, settings }) => {
    const literal = z.literal(name)
    return z
      .strictObject({ [key]: name === byDefault ? literal.default(name) : literal, ...settings })
      .meta({ description: summary })
  })
  return z.discriminatedUnion(key, options as never)
}

const namesOf = (names: Iterable<string>): z.ZodType => z.enum([...names] as [string, ...string[]])
const file = z.string().min(1).max(4096)
const size = z
  .union([z.int().min(1), z.string().regex(sizePattern)])
  .meta({ title: 'a number of bytes or a size such as 4MiB' })
const replicas = z.int().min(1).max(maximumRanks)

const tensor = z.union([
  replicas,
  z.strictObject({
    row: replicas.meta({ description: 'rows of a square of ranks' }),
    column: replicas.meta({ description: 'columns of it' }),
  }),
  z.strictObject({
    x: replicas.meta({ description: 'edge of a cube of ranks, that which varies slowest' }),
    y: replicas.meta({ description: 'second edge' }),
    z: replicas.meta({ description: 'third edge' }),
  }),
])

const weights = file
  .nullable()
  .default(null)
  .meta({ description: 'a .safetensors file, or the index of several' })

const model = z.union([
  file.meta({ description: 'short name with overrides, such as gpt:layers=4,hidden=128' }),
  z.strictObject({ name: file.meta({ description: 'short name with overrides' }), weights }),
  z.strictObject({ config: file.meta({ description: 'a Hugging Face config.json' }), weights }),
])

const time = z.number().min(0)
const times = z
  .union([time, z.array(time).min(1).max(scheduleLimits.stages)])
  .meta({ title: 'a time, zero or more, or a list of them by stage' })

const costs = z
  .strictObject({ F: times, I: times, W: times, hop: time.default(0) })
  .nullable()
  .default(null)
  .meta({ description: 'times of a stage and of a hop between actors, for schedules that search' })

const schedule = z.union([
  namesOf(scheduleGenerators.keys()),
  z.strictObject({ text: z.string().min(1).meta({ description: 'the schedule in full, in its text form' }) }),
  z.strictObject({ file: file.meta({ description: 'a file that has the schedule in full' }) }),
  namedSchema(
    'name',
    '1f1b',
    [...scheduleGenerators.values()].map(({ name, summary, parameters }) => ({
      name,
      summary,
      settings: {
        ...Object.fromEntries(
          Object.entries(parameters).map(([parameter, rule]) => [parameter, parameterSchema(rule)]),
        ),
        costs,
      },
    })),
  ),
])

const optimizer = z.union([
  namesOf(optimizers.map(({ name }) => name)),
  namedSchema(
    'name',
    'adamw',
    optimizers.map(({ name, summary, settings }) => ({
      name,
      summary,
      settings: Object.fromEntries(settings.map((info) => [info.name, settingSchema(info)])),
    })),
  ),
])

const learningRate = z.union([
  z.number().gt(0).meta({ description: 'the peak' }),
  namedSchema(
    'kind',
    'cosine',
    learningRates.map(({ kind, summary, settings }) => ({
      name: kind,
      summary,
      settings: Object.fromEntries(
        settings.map((info) => {
          const setting = settingSchema(info)
          if (info.name === 'peak') return [info.name, setting.default(0.001)]
          return [info.name, info.name === 'totalSteps' ? setting.nullable().default(null) : setting]
        }),
      ),
    })),
  ),
])

/** What a plan may say. Short names (`pp`, `dp`, …) are turned into these before. */
export const planSchema: z.ZodType = z
  .strictObject({
    $schema: z.string().max(4096).optional().meta({ description: 'for editors' }),
    meshwright: z.literal(1).meta({ description: 'version of the plan format' }),
    model: model
      .nullable()
      .default(null)
      .meta({ description: 'the model; the command line may name it instead' }),
    data: z
      .union([
        file.meta({ description: 'the text to train on' }),
        z.strictObject({
          file: file.nullable().default(null).meta({ description: 'the text to train on' }),
          tokenizer: file.nullable().default(null).meta({ description: 'a Hugging Face tokenizer.json' }),
        }),
      ])
      .default({ file: null, tokenizer: null })
      .meta({ description: 'the text to train on; the command line may name it instead' }),
    mesh: z
      .strictObject({
        pipeline: z
          .int()
          .min(1)
          .max(scheduleLimits.actors)
          .default(1)
          .meta({ description: 'actors of the pipeline; a schedule places one stage or several on each' }),
        data: z
          .union([replicas, z.array(replicas).min(1).max(scheduleLimits.actors)])
          .default(1)
          .meta({ description: 'replicas of every actor, or a list: of each' }),
        context: replicas.default(1).meta({ description: 'ranks that share the tokens of a sample' }),
        tensor: tensor
          .default(1)
          .meta({ description: 'ranks that share every layer: a number, a square or a cube' }),
        expert: replicas.default(1).meta({ description: 'ranks that share the experts' }),
        expertTensor: replicas.default(1).meta({ description: 'ranks that share each expert' }),
      })
      .prefault({}),
    layout: layoutSchema,
    stages: z
      .array(z.int().min(1).max(1_000_000))
      .min(1)
      .max(scheduleLimits.stages)
      .nullable()
      .default(null)
      .meta({
        description: 'layers of each stage; left out: cut by modelled cost, embedding and head counted',
      }),
    schedule: schedule.default('1f1b').meta({ description: 'order of the micro-batches on each actor' }),
    batch: z
      .strictObject({
        samples: z
          .int()
          .min(1)
          .max(2 ** 31 - 1)
          .default(16)
          .meta({ description: 'samples of a step, over all ranks' }),
        microbatches: z
          .int()
          .min(1)
          .max(scheduleLimits.microbatches)
          .default(4)
          .meta({ description: 'parts of a step, done one after the other on each stage' }),
      })
      .prefault({}),
    sequence: z
      .int()
      .min(1)
      .max(2 ** 31 - 1)
      .nullable()
      .default(null)
      .meta({ description: "tokens of a sample; left out: the model's context" }),
    dtype: z
      .enum(['f32', 'f64'])
      .default('f32')
      .meta({ description: 'of parameters, activations, gradients and moments alike' }),
    zero: zeroSchema,
    recompute: recomputeSchema,
    optimizer: optimizer.default('adamw').meta({ description: 'how gradients become updates' }),
    learningRate: learningRate
      .prefault({ kind: 'cosine' })
      .meta({ description: 'the peak, or a mapping; totalSteps left out: the steps of the run' }),
    clip: z
      .number()
      .gt(0)
      .nullable()
      .default(1)
      .meta({ description: 'largest norm of all gradients together; null: no clipping' }),
    reduction: z
      .strictObject({
        bucketBytes: size
          .default(2 ** 22)
          .meta({ description: 'gradients are reduced in pieces of about this size' }),
      })
      .prefault({}),
    memory: z
      .strictObject({
        deviceBytes: size.nullable().default(null).meta({ description: 'what a rank may use at most' }),
      })
      .prefault({}),
    seed: z
      .int()
      .min(0)
      .max(2 ** 32 - 1)
      .default(0)
      .meta({ description: 'of initial values and of the order of the samples' }),
  })
  .meta({ title: 'Meshwright plan' })

let jsonSchema: Readonly<Record<string, unknown>> | undefined

/** A JSON Schema (draft 7) of the plan as people write it, for editors and for messages. */
export function planJsonSchema(): Readonly<Record<string, unknown>> {
  jsonSchema ??= z.toJSONSchema(planSchema, { target: 'draft-07', io: 'input' }) as Record<string, unknown>
  return jsonSchema
}
