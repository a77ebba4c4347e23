import { createHash } from 'node:crypto';
import { lstat, readFile, readlink, symlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Part of the socket's name; nothing listens on TCP. */
export const port = 5432;
/** What the shortest of the systems takes, macOS. */
const maxPathBytes = 103;

/** The name of the Unix socket in its folder. */
export const socketName = `.s.PGSQL.${port}`;

/**
 * A path of `folder` under which a Unix socket can be reached: the folder itself, or a link in /tmp where that is too long. The
 * same in each process, and made anew where it is missing; throws when somebody else has taken the link's place.
 */
const reachable = async (folder: string): Promise<string> => {
  if (Buffer.byteLength(join(folder, socketName)) <= maxPathBytes) return folder;
  // Not what TMPDIR says: that may be long itself.
  const link = `/tmp/codebox-${createHash('sha256').update(folder).digest('hex').slice(0, 32)}`;
  await symlink(folder, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const isOwn = (await lstat(link)).uid === process.getuid?.() && (await readlink(link)) === folder;
  if (!isOwn)
    throw new Error(`${link} has to be a link of this user to ${folder}: remove it, or take a shorter folder`);
  return link;
};

/** The address of the PostgreSQL in a folder: the same whoever starts it, and however often. */
export interface Address {
  socketFolder: string;
  url: string;
}

/** Where the PostgreSQL of a folder that has its password listens, running or not. */
export const addressOf = async (folder: string): Promise<Address> => {
  const password = (await readFile(join(folder, 'password'), 'utf8')).trim();
  const socketFolder = await reachable(folder);
  const query = new URLSearchParams({ host: socketFolder });
  return { socketFolder, url: `postgresql://codebox:${password}@localhost:${port}/postgres?${query}` };
};
