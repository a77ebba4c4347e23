import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { buildNpmPackage, buildPythonPackage, pythonTools } from '../../scripts/clients.ts';
import { pythonClients } from '../dialects/clients.ts';

const run = promisify(execFile);
const installMs = 300_000;

/** The packages as they would be published, installed in folders of their own. */
export interface InstalledClients extends AsyncDisposable {
  /** A folder from which programs import the npm package. */
  project: string;
  /** A Python that has the Python package. */
  python: string;
  /** A Python that has the tools with which the package is made. */
  tools: string;
  /** The folder of the npm package. */
  npmPackage: string;
  /** The folder of the wheel and the source distribution. */
  distributions: string;
}

const installNpm = async (folder: string, npmPackage: string): Promise<string> => {
  const project = join(folder, 'project');
  await buildNpmPackage(npmPackage);
  await mkdir(project);
  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }');
  const pack = ['pack', '--silent', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd: npmPackage, timeout: installMs });
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  await run('npm', ['install', ...options, join(folder, stdout.trim())], { cwd: project, timeout: installMs });
  return project;
};

const installPython = async (folder: string, distributions: string, tools: string): Promise<string> => {
  const python = join(folder, 'venv/bin/python');
  await buildPythonPackage(distributions, tools);
  const uv = join(dirname(tools), 'uv');
  await run(uv, ['venv', '-q', '--python', tools, join(folder, 'venv')], { timeout: installMs });
  const wheels = (await readdir(distributions)).filter((name) => name.endsWith('.whl'));
  const install = ['pip', 'install', '-q', '--python', python, ...wheels.map((name) => join(distributions, name))];
  await run(uv, install, { timeout: installMs });
  return python;
};

/** Builds both packages and installs them; disposing removes them. */
export const installClients = async (): Promise<InstalledClients> => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-clients-'));
  const npmPackage = join(folder, 'npm');
  const distributions = join(folder, 'python');
  const tools = await pythonClients(...(await pythonTools()));
  const [project, python] = await Promise.all([
    installNpm(folder, npmPackage),
    installPython(folder, distributions, tools),
  ]);
  const remove = () => rm(folder, { recursive: true, force: true });
  return { project, python, tools, npmPackage, distributions, [Symbol.asyncDispose]: remove };
};
