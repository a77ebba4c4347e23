import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { project } from './pages.ts';

const run = promisify(execFile);

/** Runs a script in a shell as if pasted, and resolves with its output; throws if a line fails. */
export const paste = async (
  script: string,
  { cwd, env = {}, timeout = 120_000 }: { cwd: string; env?: Record<string, string>; timeout?: number },
): Promise<string> => {
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd,
    env: { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter), ...env },
    maxBuffer: 32 * 1024 * 1024,
    timeout,
  });
  return stdout;
};

/** Returns a package.json whose scripts run those of `folder` directly, without the check that everything is installed. */
export const directPackage = async (folder: string): Promise<string> => {
  const { scripts, ...rest } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const direct = Object.entries(scripts).map(([name, command]) => [
    name,
    command.replace(/^exec node scripts\/run\.mjs (\w+)$/, `exec "${process.execPath}" "${folder}/scripts/$1.ts"`),
  ]);
  return JSON.stringify({ ...rest, scripts: Object.fromEntries(direct) });
};
