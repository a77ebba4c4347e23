import { execFile } from 'node:child_process';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPython } from '../services/gateway/drivers/local/environment/environment.ts';
import { projectFolder } from './project.ts';

const run = promisify(execFile);
const clients = join(projectFolder, 'clients');
const buildMs = 300_000;

/** Builds the npm package from the contract, ready to be packed or published from `folder`. */
export const buildNpmPackage = async (folder: string): Promise<void> => {
  await mkdir(folder, { recursive: true });
  for (const name of ['package.json', 'README.md', 'LICENSE'])
    await cp(join(clients, 'typescript', name), join(folder, name));
  const outDir = join(folder, 'dist');
  const tsc = join(projectFolder, 'node_modules/typescript/bin/tsc');
  const options = ['-p', join(clients, 'typescript'), '--outDir', outDir];
  await run(process.execPath, [tsc, ...options], { timeout: buildMs });
  // Declarations keep the names of sources in their imports.
  for await (const name of glob('**/*.d.ts', { cwd: outDir })) {
    const text = await readFile(join(outDir, name), 'utf8');
    await writeFile(join(outDir, name), text.replaceAll(/(["'])(\.{1,2}\/[^"']+)\.ts\1/g, '$1$2.js$1'));
  }
};

/** Builds the wheel and the source distribution in `folder`; `python` has the packages of `clients/python/tools.txt`. */
export const buildPythonPackage = async (folder: string, python: string): Promise<void> => {
  const options = ['--no-isolation', '--outdir', folder, join(clients, 'python')];
  await run(python, ['-m', 'build', ...options], { timeout: buildMs });
};

/** The packages of `clients/python/tools.txt`, each with its version. */
export const pythonTools = async (): Promise<string[]> =>
  (await readFile(join(clients, 'python/tools.txt'), 'utf8')).trim().split('\n');

if (import.meta.main) {
  const folder = join(projectFolder, '.codebox/clients');
  await rm(folder, { recursive: true, force: true });
  await buildNpmPackage(join(folder, 'typescript'));
  const python = await findPython();
  if (python === undefined) throw new Error('There is no Python with venv.');
  const tools = join(folder, 'tools');
  await run(python, ['-m', 'venv', tools]);
  await run(join(tools, 'bin/python'), ['-m', 'pip', 'install', '-q', ...(await pythonTools())], { timeout: buildMs });
  // Generated again, so that the published package matches the API.
  await run(join(tools, 'bin/python'), [join(clients, 'python/generate.py')], { timeout: buildMs });
  await buildPythonPackage(join(folder, 'python'), join(tools, 'bin/python'));
  process.stdout.write(`npm publish ${folder}/typescript\n${tools}/bin/twine upload ${folder}/python/*\n`);
}
