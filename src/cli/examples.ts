import { paint } from './style.ts'

const examples: readonly (readonly [command: string, what: string])[] = [
  ['meshwright tour', 'draw a plan, train it on four ranks, watch a bad program refused (90 seconds)'],
  ['meshwright show --rank 0', 'what rank 0 of the default plan does, instruction by instruction'],
  ['meshwright check --run', 'verify the default plan, then run it beside serial training in float64'],
  [
    'meshwright train --steps 30 --set mesh.pipeline=1',
    'train a small GPT on two data-parallel ranks, on text that is already here',
  ],
  ['meshwright show --grid --set mesh.pipeline=4 --set schedule=gpipe', 'another schedule, as a picture'],
]

/** What the bare command prints: things to try that need nothing else on disk. */
export function examplesText(): string {
  const width = Math.max(...examples.map(([command]) => command.length))
  return [
    'Meshwright: type checker, planner and compiler for the parallel training of large neural networks.',
    '',
    'Try',
    ...examples.map(([command, what]) => `  ${paint.cyan(command.padEnd(width))}  ${what}`),
    '',
    'meshwright --help lists the commands; meshwright doctor says what can run here.',
    '',
  ].join('\n')
}
