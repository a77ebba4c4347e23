import { createHash } from 'node:crypto';
import { chmod, chown, lstat, mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { CodeBoxError } from '#contract';
import { boxAccounts } from '../box-user.ts';
import { canDo } from '../probe.ts';
import { listNames } from './folder-list.ts';
import { runHostCommand } from './host-command.ts';

/** How a folder that a box writes to is bounded: `tmpfs`, or `plain` when nothing prevents the box from filling the host's disk. */
export type SocketFolderKind = 'tmpfs' | 'plain';

/** The path of a Unix socket may have 107 bytes, and `/<id of 40 bytes>/run/box.sock` is appended to the folder. */
const maxFolderBytes = 50;

/** The folders of instances that are gone, as far as they could not be removed. */
const leftPrefix = '.left-';

const hosts = '127.0.0.1 localhost box\n::1 localhost box\n';

export interface SocketFolder {
  /** The log of the sandbox. It is owned by this process's user and shares the bound of the folder. */
  log: string;
  /** The host folder that is mounted at `/run/codebox` in the box, where the box creates its socket. */
  run: string;
  /** The account files, one set for each box: through locks on a shared file two boxes could communicate. */
  passwd: string;
  group: string;
  /** The hosts file of boxes without a network: the Docker daemon creates one only for boxes with a network. */
  hosts: string;
  /** The address of the socket: `unix:` and its path. */
  address: string;
}

/**
 * Returns the folder for the sockets of one deployment: `run` in the data folder, or one elsewhere when that path is too long for a socket.
 * It is created when missing, readable by this user only. Throws `internal` when another user owns it.
 */
export const socketParent = async (dataDir: string): Promise<string> => {
  const root = process.getuid?.() === 0;
  const name = `codebox-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`;
  const wanted = [`${dataDir}/run`, `${root ? '/run' : tmpdir()}/${name}`];
  const parent = wanted.find((path) => Buffer.byteLength(path) <= maxFolderBytes);
  if (parent === undefined) throw new CodeBoxError('internal', 'No folder for sockets has a short enough path.');
  await makePrivate(parent);
  return realpath(parent);
};

/** Creates a folder for sockets that this user alone can enter, unless it exists. Throws `internal` when another user owns it. */
export const makePrivate = async (folder: string): Promise<void> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const found = await lstat(folder);
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new CodeBoxError('internal', 'The folder for sockets belongs to another user.', { cause: folder });
  }
  await chmod(folder, 0o700);
};

/**
 * Returns the kind of socket folder that is possible below `parent`. A tmpfs needs root, and `reachesBoxes`: the process that starts boxes
 * has to see mounts made here, otherwise boxes would get the empty folder beneath.
 */
export const socketFolderKind = async (
  parent: string,
  reachesBoxes: (parent: string) => Promise<boolean>,
): Promise<SocketFolderKind> => {
  if (process.getuid?.() !== 0 || !(await reachesBoxes(parent))) return 'plain';
  // Root may lack the permission to mount, as in an unprivileged container.
  const canMount = await canDo(parent, {
    try: 'mkdir "$p"; mount -t tmpfs -o size=4k codebox "$p"',
    undo: 'umount --lazy "$p"; rmdir "$p"',
  });
  return canMount ? 'tmpfs' : 'plain';
};

/**
 * The folders through which the gateway reaches its boxes: `<parent>/<id>/run/box.sock`. Only this process's user can enter `parent`. The box
 * owns `run` and may put anything there, so only the socket is ever opened in it, without following links.
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

  const fill = async (id: string, uid: number, signal: AbortSignal): Promise<void> => {
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
      // A box with another user id has to write here; `parent` keeps other users of the host out.
      await chmod(folder.run, 0o777);
    }
  };

  const remove = async (id: string, signal: AbortSignal): Promise<void> => {
    const path = `${parent}/${id}`;
    while (await isMountPoint(path)) {
      try {
        await runHostCommand(['umount', '--lazy', path], { signal });
      } catch (error) {
        // A concurrent removal may have been faster.
        if (await isMountPoint(path)) throw error;
      }
    }
    if (kind === 'tmpfs') return await rm(path, { recursive: true, force: true });
    // The box may have put something there that only its own user can remove. The instance is gone nevertheless.
    const left = `${leftPrefix}${id}`;
    await rename(path, `${parent}/${left}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await removeLeft(left);
  };

  const removeLeft = (name: string) => rm(`${parent}/${name}`, { recursive: true, force: true }).catch(() => {});
  for (const name of await readdir(parent)) if (name.startsWith(leftPrefix)) await removeLeft(name);

  return {
    describe,
    /** Creates the folder, which claims the id. Throws `conflict` when the folder exists. */
    async make(id: string, uid: number, signal: AbortSignal): Promise<SocketFolder> {
      const folder = describe(id);
      try {
        await mkdir(`${parent}/${id}`);
      } catch (cause) {
        throw new CodeBoxError('conflict', 'An instance with this id exists already.', { cause });
      }
      try {
        await fill(id, uid, signal);
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
    return { point: unescaped(fields[4] ?? ''), shared: fields.slice(6).some((field) => field.startsWith('shared:')) };
  });

/** The kernel writes spaces and the like as octal numbers. */
const unescaped = (point: string): string =>
  point.replaceAll(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));

const isMountPoint = async (path: string): Promise<boolean> => (await mounts()).some(({ point }) => point === path);

/** Whether mounts made below `path` propagate to other mount namespaces, in particular that of the host. */
export const isSharedMount = async (path: string): Promise<boolean> => {
  const above = (await mounts()).filter(({ point }) => point === '/' || path === point || path.startsWith(`${point}/`));
  return above.reduce((longest, mount) => (mount.point.length >= longest.point.length ? mount : longest)).shared;
};
