import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/sequencer.ts';

/** What leaves its neighbours no processor. */
const alone = ['test/faults/overload.test.ts', 'test/faults/kills.test.ts'];
const all = ['services/**/*.test.ts', 'scripts/**/*.test.ts', 'test/**/*.test.ts'];

// Boxes share the machine, and their tests mostly wait: three files at once keep two cores busy.
export default defineConfig({
  test: {
    testTimeout: 120_000,
    hookTimeout: 600_000,
    teardownTimeout: 60_000,
    // Gateways and agents are started hundreds of times; a third of what a start costs is reading the same sources.
    env: { NODE_COMPILE_CACHE: `${import.meta.dirname}/.codebox/test-compiled` },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: all,
          exclude: alone,
          globalSetup: 'test/prepared-database.ts',
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
});
