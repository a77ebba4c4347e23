import { createHash } from 'node:crypto';
import { chmod, chown, lstat, mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { CodeBoxError } from '#contract';
import { canDo } from '../probe.ts';
import { boxAccounts } from './box-user.ts';
import { listNames } from './folder-list.ts';
import { runHostCommand } from './host-command.ts';

/** How a folder that a box writes to is bounded: `tmpfs`, or `plain` where nothing keeps the box from filling the host. */
export type SocketFolderKind = 'tmpfs' | 'plain';

/** The longest path of a Unix socket is 107 bytes; `/<id of 40>/run/box.sock` comes on top of the folder. */
const maxFolderBytes = 50;

const hosts = '127.0.0.1 localhost box\n::1 localhost box\n';

export interface SocketFolder {
  /** Belongs to this process's user alone and shares the bound of the folder; for what the sandbox prints. */
  log: string;
  /** On the host; bound to `/run/codebox` in the box, which makes its socket there. */
  run: string;
  /** One for each box: through a lock on a file that they share two boxes could talk to each other. */
  passwd: string;
  group: string;
  /** For boxes without a network: the Docker daemon makes this file only for those with one. */
  hosts: string;
  /** `unix:` and the path of the socket. */
  address: string;
}

/**
 * The folder for the sockets of one deployment: `run` in the data folder, or one elsewhere when that path is too long for a
 * socket. Made when missing, readable by this user only. Throws `internal` when somebody else owns it.
 */
export const socketParent = async (dataDir: string): Promise<string> => {
  const root = process.getuid?.() === 0;
  const name = `codebox-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`;
  const wanted = [`${dataDir}/run`, `${root ? '/run' : tmpdir()}/${name}`];
  const parent = wanted.find((path) => Buffer.byteLength(path) <= maxFolderBytes);
  if (parent === undefined) throw new CodeBoxError('internal', 'No folder for sockets has a short enough path.');
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const found = await lstat(parent);
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new CodeBoxError('internal', 'The folder for sockets belongs to somebody else.', { cause: parent });
  }
  await chmod(parent, 0o700);
  return realpath(parent);
};

/**
 * What kind of socket folder can be had below `parent`. A tmpfs needs root, and `reachesBoxes`: what is mounted here must be
 * seen by whoever starts the boxes, else they would get the empty folder beneath.
 */
export const socketFolderKind = async (
  parent: string,
  reachesBoxes: (parent: string) => Promise<boolean>,
): Promise<SocketFolderKind> => {
  if (process.getuid?.() !== 0 || !(await reachesBoxes(parent))) return 'plain';
  // Root may be without the right to mount, as in an unprivileged container.
  const canMount = await canDo(parent, {
    try: 'mkdir "$p"; mount -t tmpfs -o size=4k codebox "$p"',
    undo: 'umount --lazy "$p"; rmdir "$p"',
  });
  return canMount ? 'tmpfs' : 'plain';
};

/**
 * The folders through which the gateway reaches its boxes: `<parent>/<id>/run/box.sock`. Only this process's user gets below
 * `parent`. The box owns `run` and may put anything there, so nothing but the socket is ever opened in it, and that without
 * following links.
 */
export const createSocketFolders = async (parent: string, kind: SocketFolderKind) => {
  const describe = (id: string): SocketFolder => ({
    log: `${parent}/${id}/log`,
    run: `${parent}/${id}/run`,
    passwd: `${parent}/${id}/passwd`,
    group: `${parent}/${id}/group`,
    hosts: `${parent}/${id}/hosts`,
    address: `unix:${parent}/${id}/run/box.sock`,
  });

  const furnish = async (id: string, uid: number, signal: AbortSignal): Promise<void> => {
    const folder = describe(id);
    if (kind === 'tmpfs') {
      const options = 'nosuid,nodev,noexec,size=256k,nr_inodes=64,mode=0755';
      await runHostCommand(['mount', '-t', 'tmpfs', '-o', options, 'codebox', `${parent}/${id}`], { signal });
    }
    const accounts = boxAccounts(uid);
    await writeFile(folder.passwd, accounts.passwd);
    await writeFile(folder.group, accounts.group);
    await writeFile(folder.hosts, hosts);
    await mkdir(folder.run, { mode: 0o700 });
    if (process.getuid?.() === 0) {
      await chown(folder.run, uid, uid);
    } else {
      // Another user's box has to write here; `parent` keeps the other users of the host out.
      await chmod(folder.run, 0o777);
    }
  };

  const remove = async (id: string, signal: AbortSignal): Promise<void> => {
    const path = `${parent}/${id}`;
    while (await isMountPoint(path)) {
      try {
        await runHostCommand(['umount', '--lazy', path], { signal });
      } catch (error) {
        // Somebody else who removes it may have been faster.
        if (await isMountPoint(path)) throw error;
      }
    }
    await rm(path, { recursive: true, force: true });
  };

  return {
    describe,
    /** Throws `conflict` when there is one with this id: the folder is what claims an id. */
    async make(id: string, uid: number, signal: AbortSignal): Promise<SocketFolder> {
      const folder = describe(id);
      try {
        await mkdir(`${parent}/${id}`);
      } catch (cause) {
        throw new CodeBoxError('conflict', 'There is an instance with this id already.', { cause });
      }
      try {
        await furnish(id, uid, signal);
      } catch (cause) {
        await remove(id, AbortSignal.timeout(10_000)).catch(() => undefined);
        throw cause;
      }
      return folder;
    },
    /** Idempotent. */
    remove,
    list: () => listNames(parent),
  };
};

export type SocketFolders = Awaited<ReturnType<typeof createSocketFolders>>;

interface Mount {
  point: string;
  shared: boolean;
}

const mounts = async (): Promise<Mount[]> =>
  (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => {
    const fields = line.split(' ');
    return { point: fields[4] ?? '', shared: fields.slice(6).some((field) => field.startsWith('shared:')) };
  });

const isMountPoint = async (path: string): Promise<boolean> => (await mounts()).some(({ point }) => point === path);

/** Whether mounts made below `path` reach other mount namespaces, that of the host above all. */
export const isSharedMount = async (path: string): Promise<boolean> => {
  const above = (await mounts()).filter(({ point }) => point === '/' || path === point || path.startsWith(`${point}/`));
  return above.reduce((longest, mount) => (mount.point.length >= longest.point.length ? mount : longest)).shared;
};
