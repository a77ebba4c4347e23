import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { nextLine } from '../../parent/line.ts';
import { createParent, type Parent } from '../../parent/parent.ts';
import type { Daemon } from '../daemon/daemon.ts';
import { type ParentContainerSpec, parentContainerOptions } from './container.ts';

const maxErrorLength = 2000;
/** A folder that is older belongs to no parent that is being started. */
const startMs = 60_000;

export interface ParentContainers extends Omit<ParentContainerSpec, 'folder' | 'image'> {
  daemon: Daemon;
  /** The folder of the host for the sockets of parents, whose path is short. */
  socketParent: string;
}

/** Starts a parent from an image; resolves once it has loaded everything. Throws an Error with its last output. */
export const startParent = async (
  { daemon, socketParent, ...spec }: ParentContainers,
  image: string,
  signal: AbortSignal,
): Promise<Parent> => {
  const name = randomBytes(4).toString('hex');
  const folder = `${socketParent}/${name}`;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(`${folder}/seccomp.json`, spec.seccomp);
  const options = parentContainerOptions({ ...spec, image, folder });
  const container = await daemon.call(signal, (docker, abortSignal) =>
    docker.createContainer({ ...options, name: `codebox-${spec.deployment}-parent-${name}`, abortSignal }),
  );
  const end = () =>
    daemon
      .callIfThere(AbortSignal.timeout(startMs), () => container.remove({ force: true }))
      .catch(() => undefined)
      .then(() => rm(folder, { recursive: true, force: true }));
  try {
    const attached = { stream: true, hijack: true, stdin: true, stdout: true, stderr: true } as const;
    // The parent ends when this stream does, and so with this process.
    const stream = await daemon.call(signal, () => container.attach(attached));
    let hasEnded = false;
    stream.on('error', () => {});
    stream.once('close', () => {
      hasEnded = true;
      void end();
    });
    const [output, errors] = [new PassThrough(), new PassThrough()];
    daemon.docker.modem.demuxStream(stream, output, errors);
    stream.once('end', () => output.end());
    let lastErrors = '';
    errors.on('data', (text) => {
      lastErrors = `${lastErrors}${text}`.slice(-maxErrorLength);
    });
    await daemon.call(signal, () => container.start());
    await nextLine(output, signal).catch((cause: unknown) => {
      throw new Error(lastErrors.trim(), { cause });
    });
    output.resume();
    // It must not keep this process running.
    if (stream instanceof Socket) stream.unref();
    const process = {
      get ended() {
        return hasEnded;
      },
      end() {
        hasEnded = true;
        void end();
      },
    };
    return createParent(process, `${folder}/socket`);
  } catch (cause) {
    void end();
    throw new Error('the parent of boxes did not start', { cause });
  }
};

/** Removes the folders that parents of gateways which were killed have left. */
export const removeLeftFolders = async (socketParent: string): Promise<void> => {
  for (const name of await readdir(socketParent).catch(() => [])) {
    const path = `${socketParent}/${name}`;
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > startMs && !(await isListening(`${path}/socket`)))
      await rm(path, { recursive: true, force: true });
  }
};

const isListening = (path: string): Promise<boolean> =>
  new Promise((done) => {
    const socket = new Socket();
    socket.once('connect', () => done(true)).once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
    socket.connect(path);
  });
