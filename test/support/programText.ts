import { type Program, parseProgram } from '../../src/program/index.ts'

/**
 * A small program from its instructions as text, one list a role (pipeline coordinate): tensors `a` and `c` are there at
 * the start, what is received is freed at the end. Streams are `one` and `two`, the group `both` spans all roles.
 */
export function communicationProgram(roles: readonly (readonly string[])[], channelSlots = 1): Program {
  const received = (lines: readonly string[]): string[] => [
    ...new Set(lines.flatMap((line) => [...line.matchAll(/recv #\d+ (\w+)/g)].map((match) => match[1]!))),
  ]
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
      ...['a', 'c', ...received(lines)].map((name) => `  buffer ${name}: f64[4]`),
      '  buffer unit: f64[] constant',
      '  buffer sum: f64[]',
      '  io move in a -> a',
      '  io move in c -> c',
      ...lines.map((line) => `  ${line}`),
      `  compute run norm a unit -> sum for F stage ${pipeline} m0`,
      `  free ${['a', 'c', 'sum', ...received(lines)].join(' ')}`,
    ]),
  ]
  return parseProgram(text.join('\n'))
}
