export type LifetimeCode =
  | 'READ_BEFORE_WRITE'
  | 'READ_AFTER_FREE'
  | 'READ_AFTER_UPDATE'
  | 'WRITE_AFTER_FREE'
  | 'WRITE_GIVEN'
  | 'WRITE_UNREAD'
  | 'WRITE_OVERLAP'
  | 'SLOT_IN_USE'
  | 'SLOT_OUTSIDE'
  | 'REGION_OUTSIDE'
  | 'FREE_UNKNOWN'
  | 'VALUE_LEFT'

export interface LifetimeRule {
  readonly what: (names: string) => string
  readonly fix: string
}

/** What can be wrong with how one instruction uses memory; `names` are the values concerned. */
export const lifetimeRules: Readonly<Record<LifetimeCode, LifetimeRule>> = {
  READ_BEFORE_WRITE: {
    what: (names) => `reads ${names}, which nothing before it writes`,
    fix: 'move what writes it before this instruction',
  },
  READ_AFTER_FREE: {
    what: (names) => `reads ${names} after it was freed`,
    fix: 'free it after this instruction',
  },
  READ_AFTER_UPDATE: {
    what: (names) => `reads ${names} after its next version was written in its place`,
    fix: 'move it before the update, or give the state a slot for each version',
  },
  WRITE_AFTER_FREE: {
    what: (names) => `writes ${names} after it was freed`,
    fix: 'free it after its last use',
  },
  WRITE_GIVEN: {
    what: (names) => `writes ${names}, which the step is given`,
    fix: 'write the next version of state; constants stay as they are',
  },
  WRITE_UNREAD: {
    what: (names) => `writes ${names} again, though nothing has read what is there`,
    fix: 'remove one of the writes, or add to what is there',
  },
  WRITE_OVERLAP: {
    what: (names) => `writes rows of ${names} twice at once`,
    fix: 'give its parts regions of their own',
  },
  SLOT_IN_USE: {
    what: (names) => `writes ${names}, which is still needed`,
    fix: 'free it first, or give its pool one more slot',
  },
  SLOT_OUTSIDE: {
    what: (names) => `uses ${names}`,
    fix: 'give its pool more slots',
  },
  REGION_OUTSIDE: {
    what: (names) => `names ${names}`,
    fix: 'keep the region inside the buffer',
  },
  FREE_UNKNOWN: {
    what: (names) => `frees ${names}`,
    fix: 'free each value once, after its last use',
  },
  VALUE_LEFT: {
    what: (names) => `is the last to use ${names}, and nothing frees it`,
    fix: 'free it after its last use',
  },
}
