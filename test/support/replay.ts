import type { Engine, StateTensors } from '../../src/engine/types.ts'
import type { Program } from '../../src/program/index.ts'
import type { StepRecord } from './trainingCase.ts'

/** An engine that gives what another one has given: to compare many plans with one serial run. */
export function replay(program: Program, records: readonly StepRecord[]): Engine {
  let step = 0
  let state: StateTensors | undefined
  return {
    program,
    writeState: async () => {
      step = 0
    },
    step: async () => {
      const record = records[step++]!
      state = record.state
      return record.result
    },
    readState: async () => state!,
    memory: async () => [],
    stop: async () => {},
  }
}
