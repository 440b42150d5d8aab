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
export { type GivenCosts, latenciesOf, readCosts, unitCosts } from './costs.ts'
export type { Sends } from './csv/deadlock.ts'
export { type InferOptions, inferCommunication } from './csv/infer.ts'
export { type CsvLetters, computePart, formatCsvEntry, isCommunication } from './csv/letters.ts'
export { type CsvDialect, parseScheduleCsv, type ScheduleCsv } from './csv/parse.ts'
export { printScheduleCsv } from './csv/print.ts'
export {
  findTransferDeadlock,
  type VerifyCommunicationOptions,
  verifyCommunication,
} from './csv/verify.ts'
export { type ActionPlace, type Need, ScheduleIndex, type StageFlow, stageFlow } from './dependences.ts'
export { type DrawOptions, drawTimeline } from './draw.ts'
export type {
  ParameterRule,
  ScheduleGenerator,
  ScheduleParameters,
  ScheduleShape,
  StageCosts,
} from './generator.ts'
export { type ScheduleMetrics, scheduleMetrics } from './metrics.ts'
export {
  methods,
  type PhaseDependence,
  type PhaseRule,
  phaseLatency,
  phases,
  type ScheduleMethod,
} from './phases.ts'
export type { BlockedActor, Latencies, TimedEntry } from './progress.ts'
export {
  findGenerator,
  generateSchedule,
  placeStages,
  readParameters,
  scheduleChain,
  scheduleGenerators,
} from './registry.ts'
export { parseSchedule, printSchedule } from './text.ts'
export { type ScheduleTiming, timeSchedule } from './timing.ts'
export type * from './types.ts'
export {
  type ScheduleFinding,
  type ScheduleFindingCode,
  type ValidateOptions,
  validateSchedule,
} from './validate.ts'
export {
  type GatherWindow,
  type GradientWindow,
  gatherWindows,
  gradientWindows,
  type WindowMode,
  type WindowOptions,
  windowCounts,
} from './windows.ts'
