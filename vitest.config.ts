import { defineConfig, type ViteUserConfig } from 'vitest/config'

const everything = ['src/**/*.test.ts', 'test/**/*.test.ts']

/** Tests that start worker threads or processes of their own, which alone keep two cores busy. */
const busy = [
  'src/engine/*.test.ts',
  'src/engine/{local,emulate,calibrate,training}/*.test.ts',
  'src/cli/**/*.test.ts',
  'test/*.test.ts',
  'test/cli/**/*.test.ts',
  'test/torch/**/*.test.ts',
]

const config: ViteUserConfig = defineConfig({
  test: {
    // ONNX Runtime in a thread of a test runner would share its process with other tests: a process each.
    pool: 'forks',
    testTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'light',
          include: everything,
          exclude: busy,
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'busy', include: busy, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
})

export default config
