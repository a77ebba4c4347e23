import { runChecks } from './checks.ts';
import { isInstalled } from './system-packages.ts';

const { failed } = await runChecks(AbortSignal.timeout(10 * 60_000), isInstalled('ruff') ? 'ruff' : undefined);
process.exitCode = failed === 0 ? 0 : 1;
