export {
  chainEdges,
  chainStages,
  entryActions,
  entryCount,
  formatAction,
  formatEntry,
  sameAction,
  scheduleLimits,
} from './actions.ts'
export { type ActionPlace, type Need, ScheduleIndex, type StageFlow, stageFlow } from './dependences.ts'
export { type DrawOptions, drawTimeline } from './draw.ts'
export type { ChainShape, ParameterRule, ScheduleGenerator, ScheduleParameters } from './generator.ts'
export {
  methods,
  type PhaseDependence,
  type PhaseRule,
  phaseLatency,
  phases,
  type ScheduleMethod,
} from './phases.ts'
export type { Latencies, TimedEntry } from './progress.ts'
export { findGenerator, generateSchedule, readParameters, scheduleGenerators } from './registry.ts'
export { parseSchedule, printSchedule } from './text.ts'
export { peakInFlight, type ScheduleTiming, timeSchedule } from './timing.ts'
export type * from './types.ts'
export {
  type ScheduleFinding,
  type ScheduleFindingCode,
  type ValidateOptions,
  validateSchedule,
} from './validate.ts'
