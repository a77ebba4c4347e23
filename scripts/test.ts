import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
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

const notRun: string[] = [];
const totals: Totals = { passed: 0, failed: 0 };
const add = ({ passed, failed }: Totals) => {
  totals.passed += passed;
  totals.failed += failed;
};

interface VitestReport {
  numPassedTests: number;
  numFailedTests: number;
  numFailedTestSuites: number;
  testResults: { assertionResults: { fullName: string; status: string }[] }[];
}

const runVitest = async (env: Record<string, string>): Promise<Totals> => {
  const place = await mkdtemp(join(folder, 'vitest-'));
  try {
    const report = join(place, 'report.json');
    const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', ...filters];
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    // Gateways are started by the hundred: each takes the compiled modules of the ones before it.
    const cached = { ...env, NODE_COMPILE_CACHE: join(folder, 'compiled') };
    const code = await runShown([...vitest, ...reporters], { env: cached, signal });
    const found: VitestReport = JSON.parse(await readFile(report, 'utf8').catch(() => '{"testResults":[]}'));
    for (const { assertionResults } of found.testResults) {
      for (const { fullName, status } of assertionResults) {
        // With filters most are left out on purpose.
        if (filters.length === 0 && status !== 'passed' && status !== 'failed') notRun.push(fullName);
      }
    }
    // A file that cannot even be loaded has no failed test, yet fails the run.
    const failed = found.numFailedTests || (code === 0 ? 0 : 1);
    return { passed: found.numPassedTests ?? 0, failed };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
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
      add(await runPythonTests(venv, folder, signal));
    }
  }
  heading('Everything else');
  add(await runVitest(drivers.env));
};

try {
  await main();
} catch (error) {
  totals.failed += 1;
  log(`FAIL ${error instanceof Error ? error.message : error}`);
}
if (notRun.length > 0) {
  heading('Not run');
  for (const name of notRun) log(`- ${name}`);
}
const incomplete = notRun.length > 0 && process.env.CI === 'true';
if (incomplete) log('In CI everything has to run, so this counts as a failure.');
log(`\n${totals.passed} passed, ${totals.failed} failed${notRun.length > 0 ? `, ${notRun.length} not run` : ''}`);
process.exit(totals.failed > 0 || incomplete || signal.aborted ? 1 : 0);
