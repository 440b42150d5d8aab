export {
  assertNever,
  type ErrorDetails,
  type ExitCode,
  exitCodes,
  formatPosition,
  internalError,
  MeshwrightError,
  type SourcePosition,
} from './errors.ts'
export { greatestCommonDivisor, leastCommonMultiple, nearestWorking } from './integers.ts'
export { median, quantile } from './statistics.ts'
export { didYouMean, nearest } from './suggest.ts'
