import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { findPython } from '../../services/gateway/drivers/local/environment/environment.ts';

const run = promisify(execFile);
/** A cache with a folder per package, kept between runs: a virtual environment with pip takes longer than most tests. */
const cache = resolve(import.meta.dirname, '../../.codebox/test-wheels');

/** Resolves with a folder of the wheels of these packages without their dependencies; disposing it removes the folder. */
export const downloadWheels = async (...packages: string[]): Promise<{ folder: string } & AsyncDisposable> => {
  await keep(packages.filter((name) => !existsSync(join(cache, name))));
  const top = await mkdtemp(join(tmpdir(), 'codebox-wheels-'));
  const folder = join(top, 'wheels');
  for (const name of packages) await cp(join(cache, name), folder, { recursive: true });
  // Boxes run as other users.
  for (const path of [top, folder]) await chmod(path, 0o755);
  return { folder, [Symbol.asyncDispose]: () => rm(top, { recursive: true, force: true }) };
};

const keep = async (packages: readonly string[]): Promise<void> => {
  if (packages.length === 0) return;
  const python = await findPython();
  if (python === undefined) throw new Error('There is no Python with venv.');
  await mkdir(cache, { recursive: true });
  const making = await mkdtemp(join(cache, '.new-'));
  try {
    await run(python, ['-m', 'venv', join(making, 'venv')]);
    for (const name of packages) {
      await run(join(making, 'venv/bin/pip'), ['download', '-q', '--no-deps', '--dest', join(making, name), name]);
      // Another test may have downloaded the package meanwhile.
      await rename(join(making, name), join(cache, name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
      });
    }
  } finally {
    await rm(making, { recursive: true, force: true });
  }
};
