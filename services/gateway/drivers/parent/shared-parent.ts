import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { makePrivate } from '../host/socket-folder.ts';
import { createParent, type Parent } from './parent.ts';

/** Where gateways of root find the parents of their host. */
export const hostParents = '/run/codebox-parents';

/** A folder of this age without a socket belongs to no parent that is being started. */
const abandonedMs = 60_000;
const [lookMs, closeMs] = [50, 500];

/** How a driver runs parents. */
export interface ParentProcesses {
  /** Starts one that listens in `folder`; resolves once it does. Throws an Error with its last output when it does not start. */
  start(folder: string, signal: AbortSignal): Promise<void>;
  /** Ends the one that listens in `folder` at once. */
  end(folder: string): Promise<void>;
}

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
    const found = await find(folder);
    if (found === 'ended') await discard(folder);
    else if (found === 'starting') await sleep(lookMs, undefined, { signal });
    else {
      found.once('close', () => void removeLater(folder));
      return createParent(folder, found, () => void processes.end(folder).catch(() => undefined));
    }
  }
};

/** Removes the folder of a parent that has ended. */
const removeLeft = async (folder: string): Promise<void> => {
  const found = await find(folder);
  if (found === 'ended') await discard(folder);
  else if (found !== 'starting') found.destroy();
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
  try {
    await processes.start(folder, signal);
  } catch (error) {
    await discard(folder);
    throw error;
  }
};

/** Returns a connection to the parent of a folder, or what its end or its start has left there. */
const find = (folder: string): Promise<Socket | 'ended' | 'starting'> =>
  new Promise((done, failed) => {
    const connection = connect({ path: `${folder}/gateways` });
    connection.once('connect', () => done(connection));
    connection.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') isAbandoned(folder).then((is) => done(is ? 'ended' : 'starting'), failed);
      // It refuses connections once it has forked enough, too.
      else if (error.code === 'ECONNREFUSED') done('ended');
      else failed(error);
    });
  });

const isAbandoned = async (folder: string): Promise<boolean> => {
  // Without the folder another gateway has just discarded it, and one may be starting the next parent.
  const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Date.now() }));
  return Date.now() - mtimeMs > abandonedMs;
};

/** Another gateway may do the same at the same moment. */
const discard = async (folder: string): Promise<void> => {
  const old = `${folder}.${randomUUID()}`;
  await rename(folder, old).catch(() => undefined);
  await rm(old, { recursive: true, force: true });
};
