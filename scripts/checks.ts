import { availableParallelism } from 'node:os';
import { runCaptured, type Totals } from './steps.ts';

/**
 * Checks types, lint, layers and format of the TypeScript, and looks for unused code and dependencies. With `venv`, the Python
 * environment of the tests, checks types, lint and format of the Python too. Each check counts as one test.
 */
export const runChecks = async (signal: AbortSignal, venv?: string): Promise<Totals> => {
  const bin = 'node_modules/.bin';
  const checks: (readonly string[])[] = [
    [`${bin}/tsc`, '--noEmit'],
    [`${bin}/tsc`, '--noEmit', '-p', 'services/web'],
    [`${bin}/biome`, 'check', '--error-on-warnings', '.'],
    [process.execPath, 'node_modules/knip/bin/knip.js', '--treat-config-hints-as-errors'],
  ];
  if (venv !== undefined) {
    const folders = ['images/box/server', 'services', 'test'];
    const ruff = ['--config', 'images/box/server/pyproject.toml', ...folders];
    const mypy = ['--config-file', 'images/box/server/pyproject.toml', '--cache-dir', `${venv}/mypy-cache`];
    checks.push([`${venv}/bin/mypy`, ...mypy, ...folders, 'clients/python/codebox_client']);
    // With the settings of its own pyproject.toml.
    checks.push([`${venv}/bin/ruff`, 'check', 'clients/python']);
    checks.push([`${venv}/bin/ruff`, 'format', '--check', 'clients/python']);
    checks.push([`${venv}/bin/ruff`, 'check', ...ruff]);
    checks.push([`${venv}/bin/ruff`, 'format', '--check', ...ruff]);
  }
  const totals = { passed: 0, failed: 0 };
  const run = async (argv: readonly string[]): Promise<void> => {
    const { code, output } = await runCaptured(argv, { signal });
    process.stdout.write(`${output}${code === 0 ? 'ok  ' : 'FAIL'} ${argv.join(' ')}\n`);
    if (code === 0) totals.passed += 1;
    else totals.failed += 1;
  };
  const remaining = checks.values();
  const runRemaining = async (): Promise<void> => {
    for (const argv of remaining) await run(argv);
  };
  // Most of them use one processor.
  await Promise.all(Array.from({ length: availableParallelism() }, runRemaining));
  return totals;
};
