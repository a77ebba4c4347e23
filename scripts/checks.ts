import { runShown, type Totals } from './steps.ts';

/**
 * Types, lint, layers and format of the TypeScript, what of it and of the dependencies nothing uses, and lint of the Python where `ruff` names that program. Each counts as one
 * test.
 */
export const runChecks = async (signal: AbortSignal, ruff?: string): Promise<Totals> => {
  const bin = 'node_modules/.bin';
  const checks: (readonly string[])[] = [
    [`${bin}/tsc`, '--noEmit'],
    [`${bin}/tsc`, '--noEmit', '-p', 'services/web'],
    [`${bin}/biome`, 'check', '--error-on-warnings', '.'],
    [process.execPath, 'node_modules/knip/bin/knip.js', '--treat-config-hints-as-errors'],
  ];
  if (ruff !== undefined) {
    checks.push([ruff, 'check', 'images/box/server']);
    checks.push([ruff, 'check', '--config', 'images/box/server/pyproject.toml', 'services', 'test']);
  }
  const totals = { passed: 0, failed: 0 };
  for (const argv of checks) {
    const code = await runShown(argv, { signal });
    process.stdout.write(`${code === 0 ? 'ok  ' : 'FAIL'} ${argv.join(' ')}\n`);
    if (code === 0) totals.passed += 1;
    else totals.failed += 1;
  }
  return totals;
};
