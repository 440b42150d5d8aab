/** what running a specimen must give, by the plain mathematics of the system that it shows. */
import type { SpecimenRun } from './specimenMathematics.ts'
import { pipelineRuns } from './specimenPipelineRuns.ts'
import { streamRuns } from './specimenStreamRuns.ts'
import { tensorRuns } from './specimenTensorRuns.ts'

export type { SpecimenRun } from './specimenMathematics.ts'

/** By the number of the system; those that cannot run yet are not here. */
export const specimenRuns: Readonly<Record<string, SpecimenRun>> = {
  ...pipelineRuns,
  ...tensorRuns,
  ...streamRuns,
}
