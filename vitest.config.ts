import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 60_000,
    // Engine tests start worker threads of their own: two files at a time fill two cores.
    pool: 'forks',
    maxWorkers: 2,
  },
})
