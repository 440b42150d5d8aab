export { createEmulator, type EmulatorOptions } from './emulator.ts'
