import { packBases } from '../packNames.ts'

/** Buffer names: what the passes agree on. `stage` is the one that keeps the parameters. */
export const names = {
  parameters: (stage: number): string => `${packBases.parameters}${stage}`,
  gradients: (stage: number): string => `${packBases.gradients}${stage}`,
  gathered: (stage: number): string => `${packBases.gathered}${stage}`,
  windowGradients: (stage: number): string => `${packBases.windowGradients}${stage}`,
  copyShard: (stage: number): string => `${packBases.copyShard}${stage}`,
  copyGradients: (stage: number): string => `${packBases.copyGradients}${stage}`,
  /** A residual or a value between I and W: `r3` of stage 1 is `r1.3`. */
  local: (name: string, stage: number): string => `${name[0]}${stage}.${name.slice(1)}`,
  /** The cotangent of `value` that one of several consumers sends. */
  cotangentFrom: (value: string, consumer: number): string => `d.${value}@${consumer}`,
}
