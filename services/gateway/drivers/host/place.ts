import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const fileName = 'place-id';

/**
 * Stands for one data folder at one backend: the id of a Docker daemon, or of this machine. The data folder keeps an id of its own
 * in `place-id`, which the first of all gateways makes: whoever shares the folder shares its instances.
 */
export const readPlace = async (dataDir: string, backend: string): Promise<string> => {
  const folder = await folderId(dataDir);
  return createHash('sha256').update(`${folder}\n${backend}`).digest('hex').slice(0, 16);
};

/** The id of this machine; '' where it has none, as in some containers. */
export const machineId = async (): Promise<string> =>
  await readFile('/etc/machine-id', 'utf8').then(
    (text) => text.trim(),
    () => '',
  );

const folderId = async (dataDir: string): Promise<string> => {
  const file = join(dataDir, fileName);
  await mkdir(dataDir, { recursive: true });
  const mine = `${file}.${randomUUID()}`;
  await writeFile(mine, `${randomUUID()}\n`, { mode: 0o600 });
  // Appears whole, and only once: of gateways that start at the same moment one names the folder for all.
  await link(mine, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(mine);
  return (await readFile(file, 'utf8')).trim();
};
