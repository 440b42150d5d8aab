import { paint } from './style.ts'

const examples: readonly (readonly [command: string, what: string])[] = [
  ['tour', 'a plan drawn, trained on four ranks and compared, a bad program refused: 90 seconds'],
  ['show --rank 0', 'what rank 0 of the default plan does, instruction by instruction'],
  ['check --run', 'verify the default plan, then run it beside serial training in float64'],
  [
    'train --steps 30 --set mesh.pipeline=1',
    'train a small GPT on two replicas, on text that is already here',
  ],
  [
    'simulate --set mesh.pipeline=4',
    'one step predicted: who waits for what, memory, traffic, critical path',
  ],
  ['schedule list --ranks 4 --microbatches 8', 'every pipeline schedule: its bubble, memory and traffic'],
  ['show --grid --set mesh.pipeline=4 --set schedule=gpipe', 'another schedule, drawn'],
]

/** What the bare command prints: things to try that need nothing else on disk. */
export function examplesText(): string {
  return [
    'Meshwright: type checker and compiler for the parallel training of large neural networks.',
    '',
    ...examples.flatMap(([command, what]) => [
      `  ${paint.dim(what)}`,
      `  ${paint.cyan(`npx meshwright ${command}`)}`,
      '',
    ]),
    'npx meshwright --help lists the commands; npx meshwright doctor says what can run here.',
    '',
  ].join('\n')
}
