import { createHash } from 'node:crypto';
import { lstat, readFile, readlink, symlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Part of the socket's name; nothing listens on TCP. */
export const port = 5432;
/** The smallest limit of the supported systems, that of macOS. */
const maxPathBytes = 103;

/** The name of the Unix socket in its folder. */
export const socketName = `.s.PGSQL.${port}`;

/**
 * Returns a path by which a Unix socket in `folder` can be reached: the folder itself, or a link in /tmp when its path
 * is too long. It is the same in each process, and recreated when it is missing; throws when somebody else occupies the
 * link's path.
 */
const reachable = async (folder: string): Promise<string> => {
  if (Buffer.byteLength(join(folder, socketName)) <= maxPathBytes) return folder;
  // Not TMPDIR, which may be long itself.
  const link = `/tmp/codebox-${createHash('sha256').update(folder).digest('hex').slice(0, 32)}`;
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const isOwn = (await lstat(link)).uid === process.getuid?.() && (await readlink(link)) === folder;
  if (!isOwn)
    throw new Error(`${link} has to be a link of this user to ${folder}: remove it, or take a shorter folder`);
  return link;
};

/** The address of the PostgreSQL in a folder, which is the same at every start and for every process. */
export interface Address {
  socketFolder: string;
  url: string;
}

/** The address of the PostgreSQL of an initialised folder, whether it runs or not. */
export const addressOf = async (folder: string): Promise<Address> => {
  const password = (await readFile(join(folder, 'password'), 'utf8')).trim();
  const socketFolder = await reachable(folder);
  const query = new URLSearchParams({ host: socketFolder });
  return { socketFolder, url: `postgresql://codebox:${password}@localhost:${port}/postgres?${query}` };
};
