import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const fileName = 'place-id';

/**
 * Returns an id of a data folder on a backend, which is identified by a Docker daemon's id or this machine's. The data folder has an id of
 * its own in the file `place-id`, which its first gateway creates: gateways that share the folder share its instances.
 */
export const readPlace = async (dataDir: string, backend: string): Promise<string> => {
  const folder = await folderId(dataDir);
  return createHash('sha256').update(`${folder}\n${backend}`).digest('hex').slice(0, 16);
};

/** Returns the id of this machine; '' when it has none, as in some containers. */
export const machineId = async (): Promise<string> =>
  await readFile('/etc/machine-id', 'utf8').then(
    (text) => text.trim(),
    () => '',
  );

const folderId = async (dataDir: string): Promise<string> => {
  const file = join(dataDir, fileName);
  await mkdir(dataDir, { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, `${randomUUID()}\n`, { mode: 0o600 });
  // A link is atomic and never replaces a file: of gateways that start at the same time, one sets the id for all.
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(draft);
  return (await readFile(file, 'utf8')).trim();
};
