import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { projectFolder } from './project.ts';
import { runShown, type Totals, type Unsteady } from './steps.ts';

interface VitestReport {
  numFailedTests: number;
  testResults: FileResult[];
}

interface FileResult {
  name: string;
  status: string;
  /** The error with which the file could not be loaded. */
  message: string;
  assertionResults: { fullName: string; status: string; failureMessages: string[] | null }[];
}

export interface TestFilesOutcome extends Totals {
  unsteady: Unsteady[];
  /** The names of tests that neither passed nor failed. */
  skipped: string[];
}

interface TestFilesOptions {
  /** The parent of temporary folders for reports. */
  folder: string;
  env: Record<string, string>;
  /** At most this many failed files are run once more; more of them are a real failure. */
  mostAgain: number;
  signal: AbortSignal;
  heading: (text: string) => void;
  /** Called with the paths of the files that are about to be run once more. */
  beforeAgain: (files: readonly string[]) => Promise<void>;
}

const hasFailed = ({ status }: { status: string }): boolean => status === 'failed';

const runVitest = async (
  wanted: readonly string[],
  { folder, env, signal }: TestFilesOptions,
): Promise<VitestReport> => {
  const place = await mkdtemp(join(folder, 'vitest-'));
  try {
    const report = join(place, 'report.json');
    const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', ...wanted];
    const code = await runShown(vitest, { env: { ...env, CODEBOX_TEST_REPORT: report }, signal });
    const empty = '{"numFailedTests":0,"testResults":[]}';
    const found: VitestReport = JSON.parse(await readFile(report, 'utf8').catch(() => empty));
    // A file that cannot be loaded has no failed test, but the run fails.
    return { ...found, numFailedTests: found.numFailedTests || (code === 0 ? 0 : 1) };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
};

const failureOf = ({ message, assertionResults }: FileResult): string =>
  assertionResults
    .filter(hasFailed)
    .map(({ fullName, failureMessages }) => `${fullName}\n${(failureMessages ?? []).join('\n')}`)
    .join('\n') || message;

/**
 * Runs the test files that `wanted` names, or all if it is empty. A few failed files are run once more, one at a time: one that
 * passes then has a flaky test or a fault that only a busy machine shows, and counts as unsteady; one that fails again has failed.
 */
export const runTestFiles = async (wanted: readonly string[], options: TestFilesOptions): Promise<TestFilesOutcome> => {
  let found = await runVitest(wanted, options);
  let unsteady: Unsteady[] = [];
  const failed = found.testResults.filter(hasFailed);
  if (failed.length > 0 && failed.length <= options.mostAgain && !options.signal.aborted) {
    options.heading('Failed files, run once more by themselves');
    const files = failed.map((file) => ({ name: relative(projectFolder, file.name), output: failureOf(file) }));
    const names = files.map(({ name }) => name);
    await options.beforeAgain(names);
    const again = await runVitest(names, { ...options, env: { ...options.env, CODEBOX_TEST_WORKERS: '1' } });
    if (again.numFailedTests === 0) {
      unsteady = files;
      const steady = found.testResults.filter((file) => !hasFailed(file));
      found = { ...again, testResults: [...steady, ...again.testResults] };
    }
  }
  const tests = found.testResults.flatMap(({ assertionResults }) => assertionResults);
  const skipped = tests.filter((test) => test.status !== 'passed' && !hasFailed(test));
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    failed: found.numFailedTests,
    unsteady,
    skipped: skipped.map(({ fullName }) => fullName),
  };
};
