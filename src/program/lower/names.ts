/** Buffer names: what the passes agree on. `stage` is the one that keeps the parameters. */
export const names = {
  parameters: (stage: number): string => `w${stage}`,
  gradients: (stage: number): string => `g${stage}`,
  /** With ZeRO: parameters made whole for a window of actions. */
  gathered: (stage: number): string => `p${stage}`,
  /** With ZeRO: gradients of a window of actions, whole. */
  windowGradients: (stage: number): string => `G${stage}`,
  /** Where copies share the state too: the parameters and gradients that the ranks of one copy share. */
  copyShard: (stage: number): string => `q${stage}`,
  copyGradients: (stage: number): string => `a${stage}`,
  /** A residual or a value between I and W: `r3` of stage 1 is `r1.3`. */
  local: (name: string, stage: number): string => `${name[0]}${stage}.${name.slice(1)}`,
  /** The cotangent of `value` that one of several consumers sends. */
  cotangentFrom: (value: string, consumer: number): string => `d.${value}@${consumer}`,
}
