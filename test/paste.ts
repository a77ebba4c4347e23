import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { project, readScripts } from './pages.ts';

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

/** A folder for the commands of a page: like a checkout in which `npm start` has started this gateway. Disposing removes it. */
export const openCheckout = async ({ dataDir }: { dataDir: string }): Promise<AsyncDisposable & { folder: string }> => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-readme-'));
  await symlink(dataDir, join(folder, '.codebox'));
  for (const name of ['images', 'node_modules', 'services']) await symlink(join(project, name), join(folder, name));
  await writeFile(join(folder, 'package.json'), await directPackage(project));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
};

const marker = '---codebox-block---';

/**
 * Runs the shell blocks of a page one after the other, as if pasted, and then `behind`. Throws if a line fails or a block does not
 * print the block behind it. Resolves with what `behind` prints. `replaced` has texts of the page with their replacements.
 */
export const pastePage = async (
  page: string,
  {
    cwd,
    env = {},
    replaced,
    behind = '',
  }: { cwd: string; env?: Record<string, string>; replaced: Record<string, string>; behind?: string },
): Promise<string> => {
  const scripts = await readScripts(page);
  expect(scripts.length).toBeGreaterThan(0);
  const pasted = scripts.map(({ script }) => `${script}\necho '${marker}'`).join('\n');
  const script = Object.entries(replaced).reduce((text, [from, to]) => text.replaceAll(from, to), pasted);
  const outputs = (await paste(`${script}\n${behind}`, { cwd, env })).split(marker);
  for (const [index, { expected }] of scripts.entries()) if (expected) expect(outputs[index]).toContain(expected);
  return outputs.at(-1)?.trim() ?? '';
};
