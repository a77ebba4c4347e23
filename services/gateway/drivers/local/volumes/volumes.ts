import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { VolumeMount } from '../../driver.ts';
import { runHostCommand } from '../../host/host-command.ts';
import { createVolumeImages, type VolumeImages, volumesFolder } from '../../host/volume-images.ts';
import { type ProcessIdentity, parseStat } from '../instances/processes.ts';

const script = fileURLToPath(new URL('mount_volume.py', import.meta.url));

/** The owner of all files in volumes, which is no user of a box. Each box sees itself in its place. */
export const volumeUser = 199_998;

const probe = { id: 'probe', owner: '', sizeMb: 16, folder: 'probe', readOnly: false };
const probeMs = 10_000;
const unshare = 'unshare';

/** A running box that gets volumes. */
export interface VolumeUser {
  /** A process in its mount namespace. */
  process: ProcessIdentity;
  uid: number;
}

/** Mounts volumes in a running box, in `folder` of its file system. Their mounts end with the box. */
export const mountVolumes = async (
  images: Pick<VolumeImages, 'hold'>,
  { process, uid }: VolumeUser,
  mounts: readonly VolumeMount[],
  { python, signal, folder = volumesFolder }: { python: string; signal: AbortSignal; folder?: string },
): Promise<void> => {
  for (const mount of mounts) {
    await using device = await images.hold(mount.id, signal);
    const place = [device.path, `${folder}/${mount.folder}`];
    const owners = [volumeUser, uid].map(String);
    const mode = mount.readOnly ? 'read-only' : 'read-write';
    await runHostCommand([python, '-I', script, String(process.pid), process.startTime, ...place, ...owners, mode], {
      signal,
    });
  }
};

/** Returns why boxes cannot have volumes on this host, as a clause; undefined when they can. Tries it on a namespace without a box. */
export const volumesObstacle = async (hasImages: boolean, python: string): Promise<string | undefined> => {
  if (!hasImages) return 'the gateway cannot use loop devices, for which it has to be root';
  const folder = await mkdtemp(join(tmpdir(), 'codebox-volumes-'));
  const holder = spawn(unshare, ['--mount', '--propagation', 'private', 'sh', '-c', 'echo; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const signal = AbortSignal.timeout(probeMs);
  try {
    await once(holder.stdout, 'data', { signal });
    const process = parseStat(await readFile(`/proc/${holder.pid}/stat`, 'utf8'));
    if (process === undefined) return 'this host cannot create mount namespaces';
    const images = await createVolumeImages(folder);
    await images.make(probe, volumeUser, signal);
    await mountVolumes(images, { process, uid: volumeUser - 1 }, [probe], { python, signal, folder });
    return undefined;
  } catch {
    return 'its kernel does not map the owners of mounts (Linux 5.12 does), or forbids them';
  } finally {
    holder.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }
};
