import { findPython } from '../services/gateway/drivers/local/environment/environment.ts';
import { runChecks } from './checks.ts';
import { prepareFullImage } from './docker-image.ts';
import { testFolder as folder } from './project.ts';
import { preparePython, runPythonTests } from './python-tests.ts';
import type { Totals, Unsteady } from './steps.ts';
import { chartPrograms, installMissing, isInstalled } from './system-packages.ts';
import { startCluster, type TestCluster } from './test-cluster.ts';
import { allDrivers, prepareDrivers, testPrograms } from './test-drivers.ts';
import { runTestFiles } from './test-files.ts';

/** The tests that `--quick` runs beside the checks: all tests without boxes, and the core of the API on the local driver. */
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
/** The start times of the parts of this run. */
const parts: { name: string; beganMs: number }[] = [];
const heading = (name: string) => {
  parts.push({ name, beganMs: performance.now() });
  log(`\n── ${name} ${'─'.repeat(Math.max(0, 76 - name.length))}`);
};
const isQuick = process.argv.includes('--quick');
const filters = process.argv.slice(2).filter((argument) => argument !== '--quick');

/** A cluster takes a while to start, and few tests need one. */
const needsCluster = !isQuick && (filters.length === 0 || filters.some((filter) => filter.includes('kubernetes')));

/** Building it takes minutes, in which other tests would run late. */
const needsFullImage = !isQuick && (filters.length === 0 || filters.some((filter) => filter.includes('images')));

const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stopping.abort());
const { signal } = stopping;

/** At most this many failed test files, or failed tests of the box server, are run once more. */
const mostAgain = 6;
const unsteady: Unsteady[] = [];
const notRun: string[] = [];
const notOffered: string[] = [];
const totals: Totals = { passed: 0, failed: 0 };
const add = ({ passed, failed }: Totals) => {
  totals.passed += passed;
  totals.failed += failed;
};

const findTestPython = async (): Promise<string | undefined> => {
  const python = await findPython();
  if (python === undefined) {
    notRun.push('the tests of the box server, mypy and ruff: /usr has no Python 3.11 or newer with venv');
    return undefined;
  }
  return preparePython(folder, { python, log, signal });
};

/** Waits for the cluster. Returns its variables for the tests, without which those of the cluster do not run. */
const clusterEnv = async (cluster: TestCluster | undefined): Promise<Record<string, string>> => {
  if (cluster === undefined) return {};
  const { env, failure, isOffered } = await cluster.prepared;
  const tests = 'everything with Kubernetes';
  if (failure !== undefined) notRun.push(`${tests}: ${failure}`);
  if (!isOffered) notOffered.push(`${tests}: there is no cluster; CODEBOX_TEST_KUBECONFIG may name one`);
  else if (!chartPrograms.every((program) => isInstalled(program, env.PATH)))
    notOffered.push(`the Helm chart: ${chartPrograms.join(' or ')} is missing`);
  const lacks = (name: string) => isOffered && !env[name] && !process.env[name];
  if (lacks('CODEBOX_TEST_CLUSTER_LOAD'))
    notOffered.push(
      'an installed Helm chart: CODEBOX_TEST_RELEASE=1 loads its images, or CODEBOX_TEST_CLUSTER_LOAD names a program that does',
    );
  if (lacks('CODEBOX_TEST_CLUSTER_TO_BREAK'))
    notOffered.push('a cluster whose parts fail: CODEBOX_TEST_CLUSTER_TO_BREAK names none');
  if (lacks('CODEBOX_TEST_RUNTIME_CLASS'))
    notOffered.push('pods on gVisor: CODEBOX_TEST_RUNTIME_CLASS names no runtime class of the cluster');
  if (isOffered && process.env.CODEBOX_TEST_SANDBOXES !== '1')
    notOffered.push('the driver contract with agent-sandbox: CODEBOX_TEST_SANDBOXES=1 says that the cluster has it');
  return env;
};

/** Runs the box server's own tests. */
const testBoxServer = async (venv: string): Promise<void> => {
  const { unsteady: tests, ...server } = await runPythonTests(venv, folder, { most: mostAgain, signal });
  unsteady.push(...tests);
  add(server);
};

const main = async (): Promise<void> => {
  heading('Set-up');
  const missing = await installMissing(testPrograms, { log, signal });
  for (const { program, package: name } of missing) log(`Missing: ${program} (package ${name})`);
  await using drivers = await prepareDrivers(isQuick ? ['local'] : allDrivers, { folder, log, signal });
  notRun.push(...drivers.notRun);
  const { CODEBOX_BOX_IMAGE: image, DOCKER_HOST: host } = drivers.env;
  // Its image takes minutes to copy, in which other tests run.
  await using cluster = needsCluster
    ? startCluster({ folder: `${folder}/cluster`, image, host, log, signal })
    : undefined;
  if (needsFullImage && image !== undefined)
    await prepareFullImage(process.env, { ...(host !== undefined && { host }), log, signal });
  const venv = await findTestPython();
  if (filters.length === 0) {
    heading(isQuick ? 'Checks' : 'Checks and the box server');
    // The last tests of the box server leave the processors to the checks.
    const boxServer = venv !== undefined && !isQuick && testBoxServer(venv);
    await Promise.all([runChecks(signal, venv).then(add), boxServer]);
  }
  heading(isQuick ? 'The quick tests' : 'All other tests');
  const wanted = isQuick && filters.length === 0 ? quickFiles : filters;
  const env = { ...drivers.env, ...(await clusterEnv(cluster)) };
  // The last tests of the cluster stop it.
  const beforeAgain = async (names: readonly string[]) => {
    if (!names.some((name) => name.includes('kubernetes'))) return;
    await cluster?.resume().catch((error: Error) => log(`The cluster did not start again: ${error.message}`));
  };
  const files = await runTestFiles(wanted, { folder, env, mostAgain, signal, heading, beforeAgain });
  unsteady.push(...files.unsteady);
  // Filters skip tests on purpose.
  if (wanted.length === 0) notRun.push(...files.skipped);
  add(files);
};

try {
  await main();
} catch (error) {
  totals.failed += 1;
  log(`FAIL ${error instanceof Error ? error.message : error}`);
}
const endedMs = performance.now();
const durations = parts.map(({ name, beganMs }, index) => {
  const ms = (parts[index + 1]?.beganMs ?? endedMs) - beganMs;
  return `${name}: ${(ms / 1000).toFixed(0)} s`;
});
const isStrict = process.env.CODEBOX_TEST_STRICT === '1';
if (unsteady.length > 0) {
  heading('Unsteady: failed in the full run, passed by themselves');
  for (const { name, output } of unsteady) log(`- ${name}\n${output.replaceAll(/^/gm, '    ')}`);
  if (isStrict) log('With CODEBOX_TEST_STRICT=1 this counts as a failure.');
}
const missed = [...notRun, ...notOffered];
if (missed.length > 0) {
  heading('Not run');
  for (const name of missed) log(`- ${name}`);
}
// Tests that this machine cannot run are not failures.
const isIncomplete = notRun.length > 0 && process.env.CI === 'true';
if (isIncomplete) log('In CI all tests that can run have to, so this counts as a failure.');
log(`\n${[...durations, `in all: ${(endedMs / 1000).toFixed(0)} s`].join(', ')}`);
log(`${totals.passed} passed, ${totals.failed} failed${missed.length > 0 ? `, ${missed.length} not run` : ''}`);
const isRed = totals.failed > 0 || isIncomplete || signal.aborted || (isStrict && unsteady.length > 0);
process.exit(isRed ? 1 : 0);
