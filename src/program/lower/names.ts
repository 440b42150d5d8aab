import { packBases } from '../packNames.ts'

/** Buffer names: what the passes agree on. `home` is the pack of a stage that keeps the parameters. */
export const names = {
  parameters: (home: string): string => `${packBases.parameters}${home}`,
  gradients: (home: string): string => `${packBases.gradients}${home}`,
  gathered: (home: string): string => `${packBases.gathered}${home}`,
  windowGradients: (home: string): string => `${packBases.windowGradients}${home}`,
  copyShard: (home: string): string => `${packBases.copyShard}${home}`,
  copyGradients: (home: string): string => `${packBases.copyGradients}${home}`,
  /** A residual, a value between I and W or between pieces of a phase: `r3` of stage 1 is `r1.3`. */
  local: (name: string, stage: number): string => `${name[0]}${stage}.${name.slice(1)}`,
  /** The cotangent of `value` that one of several consumers sends. */
  cotangentFrom: (value: string, consumer: number): string => `d.${value}@${consumer}`,
}
