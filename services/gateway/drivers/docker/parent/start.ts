import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { Duplex, PassThrough } from 'node:stream';
import { untilStarted } from '../../parent/line.ts';
import type { Parent } from '../../parent/parent.ts';
import { type ParentProcesses, useSharedParent } from '../../parent/shared-parent.ts';
import type { Daemon } from '../daemon/daemon.ts';
import { type ParentContainerSpec, parentContainerOptions } from './container.ts';

const endMs = 60_000;

type ParentSpec = Omit<ParentContainerSpec, 'folder'>;

/** Finds or starts the parent of the boxes of an image. Gateways of other deployments find it too if they use the same folder and daemon. */
export const findParentContainer = (
  daemon: Daemon,
  daemonId: string,
  spec: ParentSpec,
  parentsFolder: string,
  signal: AbortSignal,
): Promise<Parent> => {
  const facts = [daemonId, parentContainerOptions({ ...spec, deployment: '', folder: '' })];
  return useSharedParent(parentsFolder, facts, containersOf(daemon, spec), signal);
};

/** Runs parents as containers, which remove themselves. */
const containersOf = (daemon: Daemon, spec: ParentSpec): ParentProcesses => ({
  async start(folder, signal) {
    await writeFile(`${folder}/seccomp.json`, spec.seccomp);
    const name = `codebox-${spec.deployment}-parent-${randomBytes(4).toString('hex')}`;
    const container = await daemon.call(signal, (docker, abortSignal) =>
      docker.createContainer({ ...parentContainerOptions({ ...spec, folder }), name, abortSignal }),
    );
    let stream: NodeJS.ReadWriteStream | undefined;
    try {
      await writeFile(nameFile(folder), name);
      const attached = { stream: true, hijack: true, stdout: true, stderr: true } as const;
      stream = await daemon.call(signal, () => container.attach(attached));
      stream.on('error', () => {});
      const [output, errors] = [new PassThrough(), new PassThrough()];
      daemon.docker.modem.demuxStream(stream, output, errors);
      stream.once('end', () => output.end());
      await daemon.call(signal, () => container.start());
      await untilStarted(output, errors, signal);
    } catch (error) {
      void remove(daemon, name).catch(() => undefined);
      throw error;
    } finally {
      if (stream instanceof Duplex) stream.destroy();
    }
  },
  async end(folder) {
    await remove(daemon, await readFile(nameFile(folder), 'utf8'));
  },
});

const nameFile = (folder: string): string => `${folder}/name`;

const remove = (daemon: Daemon, name: string): Promise<unknown> =>
  daemon.callIfThere(AbortSignal.timeout(endMs), (docker) => docker.getContainer(name).remove({ force: true }));
