export { unitCosts } from './costs.ts'
export { simulationDocument } from './document.ts'
export {
  type LineCost,
  type MeasuredCollective,
  type MeasuredTable,
  measuredCosts,
  readMeasuredTable,
} from './measuredCosts.ts'
export { type MemoryPoint, memoryPoints } from './memory.ts'
export { phaseCosts } from './phaseCosts.ts'
export { playProgram, simulateProgram, transferSlack } from './simulate.ts'
export { simulationTrace } from './trace.ts'
export {
  type CostModel,
  type CriticalStep,
  type EngineProfile,
  type HeldBytes,
  type IdleSeconds,
  type Network,
  type RankResult,
  type RunContext,
  type SimulatedRank,
  type SimulateOptions,
  type SimulationResult,
  type Times,
  type Traffic,
  type TrafficKind,
  type TransferCost,
  type TransferSlack,
  trafficKinds,
} from './types.ts'
