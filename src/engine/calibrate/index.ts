export { type CalibrateOptions, calibrate } from './calibrate.ts'
