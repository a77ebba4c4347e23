import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { volumesFolder } from '#contract';
import type { VolumeMount } from '../../driver.ts';
import { runHostCommand } from '../../host/host-command.ts';
import { createVolumeImages, type HeldDevice, type VolumeImages } from '../../host/volume-images.ts';
import { type ProcessIdentity, parseStat } from '../instances/processes.ts';

const script = fileURLToPath(new URL('mount_volume.py', import.meta.url));

/** The owner of all files in volumes, which is no user of a box. Each box sees itself in its place. */
export const volumeUser = 199_998;

const probe = { id: 'probe', owner: '', sizeMb: 16, folder: 'probe', readOnly: false };
/** Shorter than the deadline of a command, so that its error is that of the command. */
const probeMs = 15_000;
const cleanMs = 10_000;
const lockSeconds = 10;
/** What `flock` exits with when it does not get the lock. */
const lockedCode = 75;

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

/** What trying volumes has shown: nothing against them, why boxes cannot have them, as a clause, or a failure that does not tell. */
interface VolumesTrial {
  obstacle?: string;
  /** For the log: a full disk, for example, or a deadline. Boxes find out whether they can have volumes. */
  doubt?: string;
}

/**
 * Tries volumes in `folder` on a mount namespace without a box, one gateway at a time. What one has left that was killed is removed first.
 */
export const tryVolumes = async (hasImages: boolean, folder: string, python: string): Promise<VolumesTrial> => {
  if (!hasImages) return { obstacle: 'the gateway cannot use loop devices, for which it has to be root' };
  const signal = AbortSignal.timeout(probeMs);
  // Another folder than the locked one, since attaching a volume locks that of the images.
  const images = await createVolumeImages(`${folder}/images`, { limitMb: probe.sizeMb, free: 0 });
  const holder = holdNamespace(folder, signal);
  const judge = (fault: string, error: unknown): VolumesTrial =>
    signal.aborted ? { doubt: textOf(error) } : { obstacle: `${fault} (${textOf(error)})` };
  try {
    const process = await holder.entered;
    if (process === undefined) return { doubt: 'another gateway was trying them' };
    const user = { process, uid: volumeUser - 1 };
    return await withProbe(images, signal, async (device) => {
      try {
        await mountVolumes({ hold: async () => device }, user, [probe], { python, signal, folder });
        return {};
      } catch (error) {
        return judge('this host does not mount them with the owners of a box, as Linux 5.12 can', error);
      }
    });
  } catch (error) {
    return judge('this host permits no mount namespaces', error);
  } finally {
    holder.end();
  }
};

/** Attaches a small volume for a time. What goes wrong with it is a doubt. */
const withProbe = async (
  images: VolumeImages,
  signal: AbortSignal,
  use: (device: HeldDevice) => Promise<VolumesTrial>,
): Promise<VolumesTrial> => {
  try {
    await images.remove(probe.id, signal);
    await images.make(probe, volumeUser, signal);
    return await use(await images.hold(probe.id, signal));
  } catch (error) {
    return { doubt: textOf(error) };
  } finally {
    await images.remove(probe.id, AbortSignal.timeout(cleanMs)).catch(() => {});
  }
};

/**
 * Starts a process with a mount namespace of its own and a lock of `folder`, which ends with this process. `entered` resolves with it, and with
 * undefined when another has the lock.
 */
const holdNamespace = (folder: string, signal: AbortSignal) => {
  const lock = ['--no-fork', '--wait', String(lockSeconds), '--conflict-exit-code', String(lockedCode), folder];
  const command = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', 'echo; exec cat'];
  const child = spawn('flock', [...lock, ...command], { signal, killSignal: 'SIGKILL' });
  const entered = new Promise<ProcessIdentity | undefined>((done, failed) => {
    let errors = '';
    child.stderr.on('data', (text) => {
      errors += text;
    });
    child.stdout.once('data', () => readFile(`/proc/${child.pid}/stat`, 'utf8').then(parseStat).then(done, failed));
    child.once('error', failed);
    child.once('close', (code) => (code === lockedCode ? done(undefined) : failed(new Error(errors.trim()))));
  });
  return { entered, end: () => child.kill('SIGKILL') };
};

/** Returns the last line that a failed command printed, without the command and its paths. */
const textOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const [, ...lines] = error.cause instanceof Error ? error.cause.message.split('\n') : [];
  return lines.at(-1) ?? error.message;
};
