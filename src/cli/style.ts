import pico from 'picocolors'

/** Colours where a person looks: never into a pipe, never with NO_COLOR or --no-color. */
export const paint: ReturnType<typeof pico.createColors> = pico.createColors(
  pico.isColorSupported && process.stdout.isTTY === true && !process.argv.includes('--no-color'),
)

const phaseColours: Readonly<Record<string, (text: string) => string>> = {
  F: paint.blue,
  B: paint.green,
  FB: paint.cyan,
  I: paint.yellow,
  W: paint.magenta,
  U: paint.red,
}

/** The colour of a phase in every drawing. */
export function paintPhase(phase: string, text: string): string {
  return (phaseColours[phase] ?? paint.dim)(text)
}
