import { resolve } from 'node:path'
import { MeshwrightError } from '../base/index.ts'
import { readWholeFile } from '../data/index.ts'
import {
  parseSchedule,
  parseScheduleCsv,
  type Schedule,
  type ScheduleCsv,
  type ScheduleGenerator,
  scheduleLimits,
} from '../schedule/index.ts'
import { loadScheduleModule } from './scheduleModule.ts'
import { readStandardInput } from './standardInput.ts'

/** A schedule of the user's own, or what makes them. */
export type ScheduleSource =
  | { readonly kind: 'text'; readonly source: string; readonly schedule: Schedule }
  | { readonly kind: 'csv'; readonly source: string; readonly schedule: Schedule; readonly csv: ScheduleCsv }
  | { readonly kind: 'generator'; readonly source: string; readonly generator: ScheduleGenerator }

const largestModuleBytes = 2 ** 22

/** Files that are run instead of read. */
const moduleName = /\.(?:m?ts|m?js)$/

/** Whether `word` on a command line names a file, standard input or a module rather than a schedule of the registry. */
export function isScheduleSource(word: string): boolean {
  return word === '-' || /[/\\.]/.test(word)
}

/**
 * Loads a schedule of the user's own: from a file or standard input (`-`) in Meshwright's text form or in PyTorch's CSV,
 * which the content tells apart, or a generator from a module (`.ts`, `.mts`, `.js`, `.mjs`). Only modules are run.
 *
 * @throws MeshwrightError `SCHEDULE_TEXT` or `SCHEDULE_CSV` with line and column, `SCHEDULE_MODULE`, `SCHEDULE_ENCODING`,
 *   or what reading a file throws
 */
export async function loadScheduleSource(source: string): Promise<ScheduleSource> {
  if (source !== '-' && moduleName.test(source)) {
    const path = resolve(source)
    // A missing file is told as any other is.
    readWholeFile(path, 'schedule module', largestModuleBytes)
    return { kind: 'generator', source, generator: await loadScheduleModule(path) }
  }
  const name = source === '-' ? 'standard input' : source
  const bytes =
    source === '-'
      ? await readStandardInput('schedule', scheduleLimits.characters)
      : readWholeFile(source, 'schedule', scheduleLimits.characters)
  return parseScheduleSource(decode(bytes, name), name)
}

/** Reads what is recognised by its beginning: the text form starts with its name or a comment, a CSV with a cell. */
export function parseScheduleSource(
  text: string,
  file: string,
): Extract<ScheduleSource, { readonly schedule: Schedule }> {
  if (/^\s*(?:[#A-Za-z]|$)/.test(text.slice(0, 4096)))
    return { kind: 'text', source: file, schedule: parseSchedule(text, { file }) }
  const csv = parseScheduleCsv(text, { file })
  return { kind: 'csv', source: file, schedule: csv.schedule, csv }
}

function decode(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new MeshwrightError('SCHEDULE_ENCODING', `${name} is not UTF-8`, {
      at: { file: name },
      hint: 'a schedule is text; modules end in .ts, .mts, .js or .mjs',
      cause,
    })
  }
}
