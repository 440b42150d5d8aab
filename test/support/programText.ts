import { type Program, parseProgram, printProgram } from '../../src/program/index.ts'

/**
 * A small program from its instructions as text, one list a role (pipeline coordinate): tensors `a` and `c` are there at
 * the start, what is received is freed at the end. What a rank reduces is said to be a term of a sum. Streams are `one` and
 * `two`, the group `both` spans all roles.
 */
export function communicationProgram(roles: readonly (readonly string[])[], channelSlots = 1): Program {
  const received = (lines: readonly string[]): string[] => [
    ...new Set(lines.flatMap((line) => [...line.matchAll(/recv #\d+ (\w+)/g)].map((match) => match[1]!))),
  ]
  const reduced = (lines: readonly string[], name: string): string =>
    lines.some((line) => line.includes(`sum ${name} over both`)) ? ' sum over both' : ''
  const text = [
    'program 1',
    `work infer: ${roles.length} stages, 1 microbatches`,
    `channel slots ${channelSlots}`,
    `mesh pipeline=0..${roles.length - 1}: data=1`,
    'stream compute: compute',
    'stream one: network',
    'stream two: network',
    'stream io: host',
    'group both: pipeline',
    'task norm: kernel sumSquares',
    ...roles.flatMap((lines, pipeline) => [
      `role pipeline=${pipeline}`,
      ...['a', 'c', ...received(lines)].map((name) => `  buffer ${name}: f64[4]${reduced(lines, name)}`),
      '  buffer unit: f64[] constant',
      '  buffer sumOfSquares: f64[]',
      '  io move in a -> a',
      '  io move in c -> c',
      ...lines.map((line) => `  ${line}`),
      `  compute run norm a unit -> sumOfSquares for F stage ${pipeline} m0`,
      `  free ${['a', 'c', 'sumOfSquares', ...received(lines)].join(' ')}`,
    ]),
  ]
  return parseProgram(text.join('\n'))
}

/** A pattern and what takes the place of all that it matches: text, or what is made of its groups. */
export type Edit = readonly [pattern: RegExp, text: string]

/** The program with its text changed. Every pattern must be there. */
export function edited(program: Program, ...edits: readonly Edit[]): Program {
  const text = edits.reduce(
    (changed, [pattern, replacement]) => {
      if (!pattern.test(changed)) throw new Error(`nothing matches ${pattern}`)
      return changed.replace(pattern, replacement)
    },
    printProgram(program, { full: true }),
  )
  return parseProgram(text)
}
