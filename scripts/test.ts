import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { findPython } from '../services/gateway/drivers/local/environment.ts';
import { runChecks } from './checks.ts';
import { projectFolder } from './project.ts';
import { preparePython, runPythonTests } from './python-tests.ts';
import { runShown, type Totals } from './steps.ts';
import { installMissing } from './system-packages.ts';
import { prepareDrivers, testPrograms } from './test-drivers.ts';

const log = (line: string) => process.stdout.write(`${line}\n`);
const root = process.getuid?.() === 0;
// Kept between runs: images, environments. Other users must reach it, because boxes are other users.
const folder = root ? '/var/lib/codebox-test' : join(projectFolder, '.codebox/test');
const filters = process.argv.slice(2);

const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stopping.abort());
const { signal } = stopping;

/** Failures in more files of tests than these, or of more tests of the box server, are no accident. */
const mostAgain = 3;
const unsteady: string[] = [];
const notRun: string[] = [];
const totals: Totals = { passed: 0, failed: 0 };
const add = ({ passed, failed }: Totals) => {
  totals.passed += passed;
  totals.failed += failed;
};

interface VitestReport {
  numFailedTests: number;
  testResults: { name: string; status: string; assertionResults: { fullName: string; status: string }[] }[];
}

const runVitest = async (env: Record<string, string>, wanted: readonly string[]): Promise<VitestReport> => {
  const place = await mkdtemp(join(folder, 'vitest-'));
  try {
    const report = join(place, 'report.json');
    const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', ...wanted];
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const code = await runShown([...vitest, ...reporters], { env, signal });
    const nothing = '{"numFailedTests":0,"testResults":[]}';
    const found: VitestReport = JSON.parse(await readFile(report, 'utf8').catch(() => nothing));
    // A file that cannot even be loaded has no failed test, yet fails the run.
    return { ...found, numFailedTests: found.numFailedTests || (code === 0 ? 0 : 1) };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
};

const isBroken = ({ status }: { status: string }): boolean => status === 'failed';

/**
 * Few files that fail beside the others are run once more by themselves. One that passes then is named at the end, because that is
 * a mistake in a test, or one that only a busy machine shows; what fails again has failed.
 */
const runEverythingElse = async (env: Record<string, string>): Promise<Totals> => {
  let found = await runVitest(env, filters);
  const broken = found.testResults.filter(isBroken).map(({ name }) => relative(projectFolder, name));
  if (broken.length > 0 && broken.length <= mostAgain && !signal.aborted) {
    heading('Once more, by themselves');
    const again = await runVitest(env, broken);
    if (again.numFailedTests === 0) {
      unsteady.push(...broken);
      const steady = found.testResults.filter((file) => !isBroken(file));
      found = { ...again, testResults: [...steady, ...again.testResults] };
    }
  }
  const tests = found.testResults.flatMap(({ assertionResults }) => assertionResults);
  const passed = tests.filter(({ status }) => status === 'passed').length;
  // With filters most are left out on purpose.
  const left = filters.length > 0 ? [] : tests.filter((test) => test.status !== 'passed' && !isBroken(test));
  notRun.push(...left.map(({ fullName }) => fullName));
  return { passed, failed: found.numFailedTests };
};

const runPython = async (): Promise<string | undefined> => {
  const python = await findPython();
  if (python === undefined) {
    notRun.push('the tests of the box server, ruff: there is no Python from 3.11 with venv below /usr');
    return undefined;
  }
  return preparePython(folder, { python, log, signal });
};

const heading = (text: string) => log(`\n── ${text} ${'─'.repeat(Math.max(0, 76 - text.length))}`);

const main = async (): Promise<void> => {
  heading('Set-up');
  const missing = await installMissing(testPrograms, { log, signal });
  for (const { program, package: name } of missing) log(`Missing: ${program} (package ${name})`);
  await using drivers = await prepareDrivers({ folder, log, signal });
  notRun.push(...drivers.notRun);
  const venv = await runPython();
  if (filters.length === 0) {
    heading('Checks');
    add(await runChecks(signal, venv && `${venv}/bin/ruff`));
    if (venv !== undefined) {
      heading('The box server');
      const { unsteady: names, ...server } = await runPythonTests(venv, folder, { most: mostAgain, signal });
      unsteady.push(...names);
      add(server);
    }
  }
  heading('Everything else');
  add(await runEverythingElse(drivers.env));
};

try {
  await main();
} catch (error) {
  totals.failed += 1;
  log(`FAIL ${error instanceof Error ? error.message : error}`);
}
if (unsteady.length > 0) {
  heading('Unsteady: failed beside the others, passed by themselves');
  for (const name of unsteady) log(`- ${name}`);
}
if (notRun.length > 0) {
  heading('Not run');
  for (const name of notRun) log(`- ${name}`);
}
const incomplete = notRun.length > 0 && process.env.CI === 'true';
if (incomplete) log('In CI everything has to run, so this counts as a failure.');
log(`\n${totals.passed} passed, ${totals.failed} failed${notRun.length > 0 ? `, ${notRun.length} not run` : ''}`);
process.exit(totals.failed > 0 || incomplete || signal.aborted ? 1 : 0);
