import { defineConfig } from 'vitest/config';
import { chartPrograms, isInstalled } from './scripts/system-packages.ts';
import { ClosesInTime } from './test/closing.ts';
import { RunTimes } from './test/run-times.ts';
import { LongestFirst } from './test/sequencer.ts';

/** Where `npm test` wants its report. */
const report = process.env.CODEBOX_TEST_REPORT;
/** Kept between runs: how long files took, compiled sources. */
const folder = `${import.meta.dirname}/.codebox/test-cache`;

/** What leaves its neighbours no processor. */
const alone = ['test/faults/overload.test.ts'];
/** What needs a cluster, whose control plane has deadlines of its own: it starts alone, and only small tests run beside its last files. */
const cluster = ['test/**/kubernetes!(-nodes).test.ts'];
/**
 * What kills parts of that cluster, and stops it once nothing else needs it: its programs take a tenth of a processor. It mostly waits, and
 * leaves the processors to what needs no cluster.
 */
const breaking = ['test/faults/kubernetes-nodes.test.ts'];
/** What needs a cluster, one that takes images, or Helm, where there is none. */
const unavailable = [
  ...(process.env.CODEBOX_TEST_KUBECONFIG ? [] : cluster),
  ...(process.env.CODEBOX_TEST_CLUSTER_LOAD ? [] : ['test/deploy/kubernetes-release.test.ts']),
  ...(chartPrograms.every((program) => isInstalled(program)) ? [] : ['test/deploy/kubernetes*.test.ts']),
];
const unbreakable = process.env.CODEBOX_TEST_CLUSTER_TO_BREAK ? [] : breaking;
const maxWorkers = Number(process.env.CODEBOX_TEST_WORKERS ?? 5);
/** Of the tests that need a cluster, where there is one, and of the small tests after them. */
const firstWorkers = process.env.CODEBOX_TEST_KUBECONFIG ? Math.min(maxWorkers, 3) : maxWorkers;
/** Their products are shared by all projects. */
const globalSetup = ['test/prepared-database.ts', 'test/prepared-services.ts'];
/** Small tests of single modules, kept beside them. They fill the processors while the last tests of the cluster wait. */
const parts = ['services/**/*.test.ts', 'scripts/**/*.test.ts'];

// Boxes share the machine, and their tests often wait: five files at once keep two cores busy.
export default defineConfig({
  cacheDir: folder,
  test: {
    // Modules keep nothing that another file could notice, and loading the same ones for each file takes seconds of CPU time.
    isolate: false,
    testTimeout: 240_000,
    hookTimeout: 600_000,
    teardownTimeout: 60_000,
    // Gateways and agents are started hundreds of times; a third of what a start costs is reading the same sources.
    execArgv: ['--import=./services/postgres/drizzle-modules.ts'],
    env: { NODE_COMPILE_CACHE: `${folder}/compiled` },
    reporters: ['default', new RunTimes(), new ClosesInTime(), ...(report ? ['json'] : [])],
    ...(report && { outputFile: { json: report } }),
    sequence: { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { name: 'parts', include: parts, maxWorkers: firstWorkers, sequence: { groupOrder: 0 } } },
      {
        extends: true,
        test: {
          name: 'cluster',
          include: cluster,
          exclude: unavailable,
          globalSetup,
          maxWorkers: firstWorkers,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...alone, ...cluster, ...unbreakable],
          globalSetup,
          maxWorkers,
          sequence: { groupOrder: 1 },
        },
      },
      { extends: true, test: { name: 'alone', include: alone, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
});
