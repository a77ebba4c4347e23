import { createHash, randomUUID } from 'node:crypto';
import { constants, renameSync, statSync } from 'node:fs';
import { access, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makePrivate } from '../host/socket-folder.ts';
import { createParent, type Parent } from './parent.ts';

/** Where gateways of root find the parents of their host. */
const hostParents = '/run/codebox-parents';

/** A folder of this age without a socket belongs to no parent that is being started, which takes at most 30 seconds. */
const abandonedMs = 40_000;
const [lookMs, closeMs] = [50, 500];

/** How a driver runs parents. */
export interface ParentProcesses {
  /** Starts one that listens in `folder`; resolves once it does. Throws an Error with its last output when it does not start. */
  start(folder: string, signal: AbortSignal): Promise<void>;
  /** Ends the one that listens in `folder` at once. */
  end(folder: string): Promise<void>;
}

/**
 * Returns the folder where a gateway finds parents: one of the host for root, otherwise one beside the folder of its sockets. `seesHost` says
 * whether the parents see the same files as this process.
 */
export const findParentsFolder = async (sockets: string, seesHost: boolean): Promise<string> => {
  const isHost = seesHost && process.getuid?.() === 0;
  const isWritable = () =>
    access(dirname(hostParents), constants.W_OK)
      .then(() => true)
      .catch(() => false);
  return isHost && (await isWritable()) ? hostParents : `${sockets}-parents`;
};

/**
 * Returns the parent that all gateways use which call this with the same folder `parents` and with equal facts, which are everything that
 * the boxes of a parent have in common. One is started if none runs; another gateway may be doing that already, which this one waits for.
 */
export const useSharedParent = async (
  parents: string,
  facts: unknown,
  processes: ParentProcesses,
  signal: AbortSignal,
): Promise<Parent> => {
  await makePrivate(parents);
  for (const name of await readdir(parents)) await removeLeft(`${parents}/${name}`).catch(() => undefined);
  const folder = `${parents}/${createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 12)}`;
  for (;;) {
    if (await claim(folder)) await start(folder, processes, signal);
    const { use, isEnded, inode } = await find(folder);
    if (use !== undefined) {
      use.once('close', () => void removeLater(folder));
      const end = async () => {
        await processes.end(folder).catch(() => undefined);
        await discard(folder, inode);
      };
      return createParent(folder, use, () => void end().catch(() => undefined));
    }
    if (isEnded) await discard(folder, inode);
    else await sleep(lookMs, undefined, { signal });
  }
};

/** Removes the folder of a parent that has ended. */
const removeLeft = async (folder: string): Promise<void> => {
  const { use, isEnded, inode } = await find(folder);
  use?.destroy();
  if (isEnded) await discard(folder, inode);
};

/** The sockets of a process may be closed after its connections. */
const removeLater = async (folder: string): Promise<void> => {
  await sleep(closeMs, undefined, { ref: false });
  await removeLeft(folder).catch(() => undefined);
};

/** Creates the folder; returns false when another gateway has. */
const claim = (folder: string): Promise<boolean> =>
  mkdir(folder, { mode: 0o700 }).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false;
      throw error;
    },
  );

const start = async (folder: string, processes: ParentProcesses, signal: AbortSignal): Promise<void> => {
  const { ino } = await stat(folder);
  try {
    await processes.start(folder, signal);
  } catch (error) {
    await discard(folder, ino).catch(() => undefined);
    throw error;
  }
};

interface Found {
  /** A connection to the parent, if it serves. */
  use?: Socket;
  /** Whether nothing is left of it but its folder. Otherwise, without a connection, it is being started. */
  isEnded: boolean;
  /** The inode of its folder, because another parent may use the same path later. */
  inode: number;
}

const find = async (folder: string): Promise<Found> => {
  const found = await stat(folder).catch(() => undefined);
  // Another gateway has just discarded it.
  if (found === undefined) return { isEnded: false, inode: 0 };
  const inode = found.ino;
  return await new Promise((done, failed) => {
    const use = connect({ path: `${folder}/gateways` });
    use.once('connect', () => done({ use, isEnded: false, inode }));
    use.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') done({ isEnded: Date.now() - found.mtimeMs > abandonedMs, inode });
      // A parent that has forked enough also refuses connections.
      else if (error.code === 'ECONNREFUSED') done({ isEnded: true, inode });
      else failed(error);
    });
  });
};

/** Removes the folder, unless another gateway has and there is another one. */
const discard = async (folder: string, inode: number): Promise<void> => {
  const old = `${folder}.${randomUUID()}`;
  try {
    // These calls are synchronous, so that nothing else that this process does comes between them.
    if (statSync(folder).ino !== inode) return;
    renameSync(folder, old);
  } catch {
    return;
  }
  await rm(old, { recursive: true, force: true });
};
