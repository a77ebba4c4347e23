import { join } from 'node:path';
import { findPython } from '../services/gateway/drivers/local/environment.ts';
import { runChecks } from './checks.ts';
import { projectFolder } from './project.ts';
import { preparePython, runPythonTests } from './python-tests.ts';
import type { Totals, Unsteady } from './steps.ts';
import { installMissing } from './system-packages.ts';
import { allDrivers, prepareDrivers, testPrograms } from './test-drivers.ts';
import { runTestFiles } from './test-files.ts';

/** What `--quick` runs beside the checks: everything without boxes, and the heart of the API on the local driver. */
const quickFiles = [
  'services/',
  'test/guards.test.ts',
  'test/features.test.ts',
  'test/openapi-texts.test.ts',
  'test/api/admin.test.ts',
  'test/api/bad-input.test.ts',
  'test/api/boxes.test.ts',
  'test/api/client.test.ts',
  'test/api/commands.test.ts',
  'test/api/contexts.test.ts',
  'test/api/executions.test.ts',
  'test/agent/cells.test.ts',
];

const log = (line: string) => process.stdout.write(`${line}\n`);
const heading = (text: string) => log(`\n── ${text} ${'─'.repeat(Math.max(0, 76 - text.length))}`);
const root = process.getuid?.() === 0;
// Kept between runs: images, environments. Other users must reach it, because boxes are other users.
const folder = root ? '/var/lib/codebox-test' : join(projectFolder, '.codebox/test');
const isQuick = process.argv.includes('--quick');
const filters = process.argv.slice(2).filter((argument) => argument !== '--quick');

const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stopping.abort());
const { signal } = stopping;

/** Failures in more files of tests than these, or of more tests of the box server, are no accident. */
const mostAgain = 3;
const unsteady: Unsteady[] = [];
const notRun: string[] = [];
const totals: Totals = { passed: 0, failed: 0 };
const add = ({ passed, failed }: Totals) => {
  totals.passed += passed;
  totals.failed += failed;
};

const findTestPython = async (): Promise<string | undefined> => {
  const python = await findPython();
  if (python === undefined) {
    notRun.push('the tests of the box server, ruff: there is no Python from 3.11 with venv below /usr');
    return undefined;
  }
  return preparePython(folder, { python, log, signal });
};

const main = async (): Promise<void> => {
  heading('Set-up');
  const missing = await installMissing(testPrograms, { log, signal });
  for (const { program, package: name } of missing) log(`Missing: ${program} (package ${name})`);
  await using drivers = await prepareDrivers(isQuick ? ['local'] : allDrivers, { folder, log, signal });
  notRun.push(...drivers.notRun);
  const venv = await findTestPython();
  if (filters.length === 0) {
    heading('Checks');
    add(await runChecks(signal, venv && `${venv}/bin/ruff`));
    if (venv !== undefined && !isQuick) {
      heading('The box server');
      const { unsteady: tests, ...server } = await runPythonTests(venv, folder, { most: mostAgain, signal });
      unsteady.push(...tests);
      add(server);
    }
  }
  heading(isQuick ? 'The quick tests' : 'Everything else');
  const wanted = isQuick && filters.length === 0 ? quickFiles : filters;
  const files = await runTestFiles(wanted, { folder, env: drivers.env, mostAgain, signal, heading });
  unsteady.push(...files.unsteady);
  // With filters most are left out on purpose.
  if (wanted.length === 0) notRun.push(...files.left);
  add(files);
};

try {
  await main();
} catch (error) {
  totals.failed += 1;
  log(`FAIL ${error instanceof Error ? error.message : error}`);
}
const isStrict = process.env.CODEBOX_TEST_STRICT === '1';
if (unsteady.length > 0) {
  heading('Unsteady: failed beside the others, passed by themselves');
  for (const { name, words } of unsteady) log(`- ${name}\n${words.replaceAll(/^/gm, '    ')}`);
  if (isStrict) log('With CODEBOX_TEST_STRICT=1 this counts as a failure.');
}
if (notRun.length > 0) {
  heading('Not run');
  for (const name of notRun) log(`- ${name}`);
}
const isIncomplete = notRun.length > 0 && process.env.CI === 'true';
if (isIncomplete) log('In CI everything has to run, so this counts as a failure.');
log(`\n${totals.passed} passed, ${totals.failed} failed${notRun.length > 0 ? `, ${notRun.length} not run` : ''}`);
const isRed = totals.failed > 0 || isIncomplete || signal.aborted || (isStrict && unsteady.length > 0);
process.exit(isRed ? 1 : 0);
