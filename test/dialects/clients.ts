import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { testFolder } from '../../scripts/project.ts';
import { findPython } from '../../services/gateway/drivers/local/environment/environment.ts';
import type { RunningGateway } from '../api/harness.ts';
import { openCheckout, pastePage } from '../paste.ts';

const run = promisify(execFile);
/** Prints which clients a test uses, for its log. */
export const printVersions = (dialect: string, versions: Record<string, string> | readonly string[]): void => {
  process.stdout.write(`${dialect} clients: ${Object.values(versions).join(', ')}\n`);
};

const installMs = 560_000;

/** Resolves with a folder that `make` has filled. It is kept between runs as long as `packages` stay the same. */
const keep = async (packages: readonly string[], make: (folder: string) => Promise<void>): Promise<string> => {
  const hash = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 12);
  const kept = join(testFolder, 'clients', `${packages[0]?.replaceAll(/[^\w.]+/g, '-')}-${hash}`);
  if (existsSync(kept)) return kept;
  await mkdir(join(testFolder, 'clients'), { recursive: true });
  const making = await mkdtemp(join(testFolder, 'clients/.new-'));
  try {
    await make(making);
    // Another test may have made it meanwhile.
    await rename(making, kept).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return kept;
};

/** Resolves with a folder from which programs import these npm packages, such as `e2b@2.51.0`. */
export const npmClients = (...packages: string[]): Promise<string> =>
  keep(packages, async (folder) => {
    await writeFile(join(folder, 'package.json'), '{ "private": true }');
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--save-exact'];
    await run('npm', ['install', ...options, ...packages], { cwd: folder, timeout: installMs });
  });

/** Resolves with a Python that has these packages, such as `e2b==2.63.0`. */
export const pythonClients = async (...packages: string[]): Promise<string> => {
  const python = await findPython();
  if (python === undefined) throw new Error('There is no Python with venv.');
  const uv = join(testFolder, 'python/bin/uv');
  const folder = await keep(packages, async (venv) => {
    // Pages of dialects call pip, which finds that all is there.
    await run(uv, ['venv', '-q', '--seed', '--allow-existing', '--python', python, venv], { timeout: installMs });
    const options = ['-q', '--compile-bytecode', '--python', join(venv, 'bin/python')];
    await run(uv, ['pip', 'install', ...options, ...packages], { timeout: installMs });
  });
  return join(folder, 'bin/python');
};

const programMs = 120_000;

/** Runs a program, and resolves with the JSON that it prints. */
const runProgram = async <T>(command: string, args: string[], env: Record<string, string>, cwd: string): Promise<T> => {
  const options = { env: { ...process.env, ...env }, cwd, timeout: programMs };
  const { stdout } = await run(command, args, options);
  return JSON.parse(stdout) as T;
};

/** Runs the body of an async function with packages of this folder, and resolves with its result. */
export const runJavaScript = <T>(folder: string, imports: string, body: string, env: Record<string, string>) => {
  const program = `${imports}\nconst main = async () => {${body}\n};\n
// Clients leave timers and connections behind.
process.stdout.write(JSON.stringify(await main()), () => process.exit());`;
  return runProgram<T>(process.execPath, ['--input-type=module', '--eval', program], env, folder);
};

/** Runs statements in Python, and resolves with the values that they pass to `show`. */
export const runPython = <T>(python: string, statements: string, env: Record<string, string>) =>
  runProgram<T>(python, ['-c', `import json\ndef show(value): print(json.dumps(value))\n${statements}`], env, '/');

/**
 * Runs the shell blocks of the page of a dialect, as `pastePage` does, with the packages of this Python: `pip` finds that they are
 * installed.
 */
export const pasteDialectPage = async (
  name: string,
  gateway: RunningGateway,
  { python, replaced, behind = '' }: { python?: string; replaced?: Record<string, string>; behind?: string } = {},
): Promise<string> => {
  await using checkout = await openCheckout(gateway);
  const programs = [python === undefined ? [] : dirname(python), dirname(process.execPath), process.env.PATH].flat();
  return await pastePage(`docs/dialects/${name}.md`, {
    cwd: checkout.folder,
    env: {
      PATH: programs.join(delimiter),
      // The program `pip` of a kept environment names the folder in which that was made.
      'BASH_FUNC_pip%%': '() { python -m pip "$@"; }',
      PIP_NO_INDEX: '1',
      PIP_QUIET: '1',
    },
    replaced: { 'http://localhost:8080': gateway.url, ...replaced },
    behind,
  });
};
