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
  /** Why the file could not be loaded. */
  message: string;
  assertionResults: { fullName: string; status: string; failureMessages: string[] | null }[];
}

export interface TestFilesOutcome extends Totals {
  unsteady: Unsteady[];
  /** Tests that neither passed nor failed, by name. */
  left: string[];
}

interface TestFilesOptions {
  /** For reports. */
  folder: string;
  env: Record<string, string>;
  /** So many files that fail are run once more; more than that are no accident. */
  mostAgain: number;
  signal: AbortSignal;
  heading: (text: string) => void;
}

const isBroken = ({ status }: { status: string }): boolean => status === 'failed';

const runVitest = async (
  wanted: readonly string[],
  { folder, env, signal }: TestFilesOptions,
): Promise<VitestReport> => {
  const place = await mkdtemp(join(folder, 'vitest-'));
  try {
    const report = join(place, 'report.json');
    const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', ...wanted];
    const code = await runShown(vitest, { env: { ...env, CODEBOX_TEST_REPORT: report }, signal });
    const nothing = '{"numFailedTests":0,"testResults":[]}';
    const found: VitestReport = JSON.parse(await readFile(report, 'utf8').catch(() => nothing));
    // A file that cannot even be loaded has no failed test, yet fails the run.
    return { ...found, numFailedTests: found.numFailedTests || (code === 0 ? 0 : 1) };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
};

const wordsOf = ({ message, assertionResults }: FileResult): string =>
  assertionResults
    .filter(isBroken)
    .map(({ fullName, failureMessages }) => `${fullName}\n${(failureMessages ?? []).join('\n')}`)
    .join('\n') || message;

/**
 * Runs the files of tests that `wanted` names, all when it is empty. Few that fail beside the others are run once more by
 * themselves: one that passes then is a mistake in a test, or one that only a busy machine shows; what fails again has failed.
 */
export const runTestFiles = async (wanted: readonly string[], options: TestFilesOptions): Promise<TestFilesOutcome> => {
  let found = await runVitest(wanted, options);
  let unsteady: Unsteady[] = [];
  const broken = found.testResults.filter(isBroken);
  if (broken.length > 0 && broken.length <= options.mostAgain && !options.signal.aborted) {
    options.heading('Once more, by themselves');
    const files = broken.map((file) => ({ name: relative(projectFolder, file.name), words: wordsOf(file) }));
    const again = await runVitest(
      files.map(({ name }) => name),
      options,
    );
    if (again.numFailedTests === 0) {
      unsteady = files;
      const steady = found.testResults.filter((file) => !isBroken(file));
      found = { ...again, testResults: [...steady, ...again.testResults] };
    }
  }
  const tests = found.testResults.flatMap(({ assertionResults }) => assertionResults);
  const left = tests.filter((test) => test.status !== 'passed' && !isBroken(test));
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    failed: found.numFailedTests,
    unsteady,
    left: left.map(({ fullName }) => fullName),
  };
};
