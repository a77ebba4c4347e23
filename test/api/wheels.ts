import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findPython } from '../../services/gateway/drivers/local/environment.ts';

const run = promisify(execFile);

/** A folder with the wheels of these packages, without what they depend on; disposing it removes it. */
export const downloadWheels = async (...packages: string[]): Promise<{ folder: string } & AsyncDisposable> => {
  const python = await findPython();
  if (python === undefined) throw new Error('There is no Python with venv.');
  const top = await mkdtemp(join(tmpdir(), 'codebox-wheels-'));
  await run(python, ['-m', 'venv', join(top, 'venv')]);
  const folder = join(top, 'wheels');
  await run(join(top, 'venv/bin/pip'), ['download', '-q', '--no-deps', '--dest', folder, ...packages]);
  // For the users of boxes.
  for (const path of [top, folder]) await chmod(path, 0o755);
  return { folder, [Symbol.asyncDispose]: () => rm(top, { recursive: true, force: true }) };
};
