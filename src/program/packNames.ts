/**
 * What buffers of a stage's parameters and gradients are called; the number of the stage that keeps them follows, and
 * behind a dot that of the pack where a stage has several: `w1`, `w1.1`. Passes that make programs and rules that hold them to account
 * agree on these.
 */
export const packBases = {
  parameters: 'w',
  gradients: 'g',
  /** With ZeRO: parameters made whole for a window of actions. */
  gathered: 'p',
  /** With ZeRO: gradients of a window of actions, whole. */
  windowGradients: 'G',
  /** Where copies share the state too: the parameters and gradients that the ranks of one copy share. */
  copyShard: 'q',
  copyGradients: 'a',
} as const

const all: readonly string[] = Object.values(packBases)

/** Whether tensors in buffers of that base go by the parameter's own name. */
export function isPackBase(base: string): boolean {
  return all.includes(base)
}

/** The pack of a buffer that is called so, `1` or `1.1`; undefined for other names. */
export function packHome(name: string): string | undefined {
  const home = /^[A-Za-z](\d{1,9}(?:\.\d{1,9})?)$/.exec(name)?.[1]
  return home !== undefined && isPackBase(name[0]!) ? home : undefined
}
