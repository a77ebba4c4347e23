import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { runChecks } from './checks.ts';
import { testFolder } from './project.ts';

// Made by `npm test`.
const venv = join(testFolder, 'python');
const { failed } = await runChecks(AbortSignal.timeout(10 * 60_000), existsSync(`${venv}/bin/mypy`) ? venv : undefined);
process.exitCode = failed === 0 ? 0 : 1;
