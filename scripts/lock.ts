import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPython } from '../services/gateway/drivers/local/environment/environment.ts';
import { followCommand } from '../services/gateway/drivers/local/environment/follow-command.ts';
import { projectFolder } from './project.ts';

// Resolves the requirements of both images together, and writes their lock files with hashes.
const images = join(projectFolder, 'images');
const log = (line: string) => process.stdout.write(`${line}\n`);
const { signal } = new AbortController();
const run = (argv: string[]) => followCommand(argv, { log, signal });

const python = await findPython();
if (python === undefined) throw new Error('/usr has no Python 3.11 or newer with venv.');
const folder = await mkdtemp(join(tmpdir(), 'codebox-lock-'));
try {
  const [uv = 'uv'] = /^uv==[^ ]+/m.exec(await readFile(join(images, 'box/requirements.txt'), 'utf8')) ?? [];
  await run([python, '-m', 'venv', folder]);
  await run([`${folder}/bin/pip`, 'install', '-q', uv]);
  // Python 3.11 is that of the images, and the oldest that the local driver takes.
  const options = [
    '--python-version',
    '3.11',
    '--python-platform',
    'linux',
    '--no-annotate',
    '--no-header',
    '--upgrade',
  ];
  const compile = (inputs: string[], output: string, more: string[] = []) =>
    run([
      ...[`${folder}/bin/uv`, 'pip', 'compile', '-q', ...options, ...more],
      ...['-o', output, ...inputs.map((name) => join(images, name))],
    ]);
  const full = 'box-full/requirements.in';
  await compile([full, 'box-full/neighbours.in'], `${folder}/all.txt`);
  // Both images get the versions that all of this accepts. XGBoost needs NCCL for several GPUs only.
  const locked = ['--generate-hashes', '-c', `${folder}/all.txt`, '--no-emit-package', 'nvidia-nccl-cu12'];
  await compile(['box/requirements.in'], join(images, 'box/requirements.txt'), locked);
  await compile([full], join(images, 'box-full/requirements.txt'), locked);
} finally {
  await rm(folder, { recursive: true });
}
