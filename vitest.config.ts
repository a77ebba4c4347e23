import { defineConfig } from 'vitest/config';
import { RunTimes } from './test/run-times.ts';
import { LongestFirst } from './test/sequencer.ts';

/** Where `npm test` wants its report. */
const report = process.env.CODEBOX_TEST_REPORT;
/** Kept between runs: how long files took, compiled sources. */
const folder = `${import.meta.dirname}/.codebox/test-cache`;

/** What leaves its neighbours no processor. */
const alone = ['test/faults/overload.test.ts', 'test/faults/kills.test.ts'];
const all = ['services/**/*.test.ts', 'scripts/**/*.test.ts', 'test/**/*.test.ts'];

// Boxes share the machine, and their tests mostly wait: three files at once keep two cores busy.
export default defineConfig({
  cacheDir: folder,
  test: {
    testTimeout: 120_000,
    hookTimeout: 600_000,
    teardownTimeout: 60_000,
    // Gateways and agents are started hundreds of times; a third of what a start costs is reading the same sources.
    execArgv: ['--import=./services/postgres/drizzle-modules.ts'],
    env: { NODE_COMPILE_CACHE: `${folder}/compiled` },
    reporters: ['default', new RunTimes(), ...(report ? ['json'] : [])],
    ...(report && { outputFile: { json: report } }),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          include: all,
          exclude: alone,
          globalSetup: 'test/prepared-database.ts',
          maxWorkers: Number(process.env.CODEBOX_TEST_WORKERS ?? 3),
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
});
