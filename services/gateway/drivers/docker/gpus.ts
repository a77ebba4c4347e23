import { mkdir, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { DeviceRequest } from 'dockerode';
import { z } from 'zod';
import { type Gpus, wholeGpu } from '../driver.ts';
import { runHostCommand } from '../host/host-command.ts';
import { InstanceFailed } from '../instance-failed.ts';

/** The devices that instances get for themselves, by their kind, as NVIDIA's runtime names them: an index, or the UUID of a GPU or of a share. */
export type DevicesByKind = Readonly<Record<string, readonly string[]>>;

const entryPattern = /^(?:(?<kind>[a-z0-9.-]+\/[\w.-]+)=)?(?<ids>[\w:-]+(?:,[\w:-]+)*)$/;

/** `GPU-1a,GPU-2b nvidia.com/mig-1g.5gb=MIG-3c,MIG-4d` */
export const readDevices = (text: string, context: z.core.$RefinementCtx): DevicesByKind => {
  const entries = text.split(/\s+/).filter((part) => part !== '');
  const parsed = entries.map((entry) => entryPattern.exec(entry)?.groups);
  const devices = parsed.map((entry) => [entry?.kind ?? wholeGpu, entry?.ids?.split(',') ?? []] as const);
  const ids = devices.flatMap(([, listed]) => listed);
  const isRepeated = new Set(ids).size < ids.length || new Set(devices.map(([kind]) => kind)).size < devices.length;
  if (!isRepeated && parsed.every((entry) => entry !== undefined)) return Object.fromEntries(devices);
  context.addIssue('must be devices such as 0,1 nvidia.com/mig-1g.5gb=MIG-…,MIG-…, each device and each kind once');
  return z.NEVER;
};

/** Takes all devices from the instance $1 in the folder $0. */
const releaseScript = 'cd "$0" && for device in *; do [ "$(readlink "$device")" != "$1" ] || rm "$device"; done';

/** Gives $2 of the devices that follow to the instance $1, or none, and prints them. */
const claimScript = `cd "$0" || exit 1
id=$1; left=$2; shift 2
for device; do
  [ "$left" -gt 0 ] || break
  ln -sn "$id" "$device" 2> /dev/null
  if [ "$(readlink "$device")" = "$id" ]; then echo "$device"; left=$((left - 1)); fi
done
if [ "$left" -gt 0 ]; then set -- "$id"; ${releaseScript}; fi`;

/** The runtime whose entry in the daemon shows that it can give containers a GPU; they need not use it. */
const runtimeOfGpus = 'nvidia';

export interface GpuDevicesOptions {
  /** The folder that records which instance has which device. */
  folder: string;
  devices: DevicesByKind;
  /** The runtimes of the daemon. */
  runtimes: readonly string[];
}

/**
 * The GPUs of the host. A device of `devices` belongs to one instance at a time; if there are none, instances share all GPUs of the host. What
 * belongs to whom is in a folder, as symbolic links from devices to ids of instances, so that several gateways on one host agree.
 */
export const createGpuDevices = ({ folder, devices, runtimes }: GpuDevicesOptions) => {
  const isShared = Object.keys(devices).length === 0;
  const pathOf = (device: string) => join(folder, device);

  /** Returns the id of the instance that has a device. */
  const holderOf = (device: string): Promise<string> => readlink(pathOf(device)).catch(() => '');
  const held = async (): Promise<string[]> => await readdir(folder).catch(() => []);

  // Another gateway that releases the same instance must not take a device from the next one, and each of two that claim must not get one of
  // the two devices that both need.
  const locked = (script: string, args: readonly string[], signal?: AbortSignal): Promise<string> =>
    runHostCommand(['flock', folder, 'sh', '-c', script, folder, ...args], { ...(signal && { signal }) });

  const release = async (id: string): Promise<void> => {
    const holders = await Promise.all((await held()).map(holderOf));
    if (holders.includes(id)) await locked(releaseScript, [id]);
  };

  return {
    /** Returns why no instance can have these GPUs, as a clause that follows "because". */
    obstacle({ kind, count }: Gpus): string | undefined {
      if (!runtimes.includes(runtimeOfGpus)) return `the Docker daemon has no runtime ${runtimeOfGpus}`;
      if (isShared) return kind === wholeGpu ? undefined : `CODEBOX_GPUS names no devices of the kind ${kind}`;
      const there = devices[kind]?.length ?? 0;
      return count <= there ? undefined : `CODEBOX_GPUS names fewer than ${count} devices of the kind ${kind}`;
    },

    /**
     * Gives devices to an instance, and returns what its container requests. Throws InstanceFailed, and gives it none, when too few are free.
     */
    async claim(id: string, { kind, count }: Gpus, signal: AbortSignal): Promise<DeviceRequest> {
      const request = { Driver: 'nvidia', Capabilities: [['gpu', 'compute', 'utility']] };
      if (isShared) return { ...request, Count: count };
      await mkdir(folder, { recursive: true });
      const printed = await locked(claimScript, [id, String(count), ...(devices[kind] ?? [])], signal);
      const taken = printed.split('\n').filter((device) => device !== '');
      if (taken.length === count) return { ...request, DeviceIDs: taken };
      throw new InstanceFailed({ code: 'unschedulable', detail: `fewer than ${count} devices of ${kind} are free` });
    },

    /** Takes all devices from an instance. */
    release,

    /** Returns the ids of the instances that have devices. */
    list: async (): Promise<string[]> => [...new Set(await Promise.all((await held()).map(holderOf)))].filter(Boolean),
  };
};

export type GpuDevices = ReturnType<typeof createGpuDevices>;

/** How the daemon and NVIDIA's runtime refuse to start a container because of its GPUs. */
const refusals = /could not select device driver|nvidia-container|nvidia-ctk|CDI device/i;

/** Throws InstanceFailed for a container that cannot be started because of its GPUs: the daemon would refuse it again. */
export const throwLackOfGpu = (error: unknown): never => {
  const refusal = error instanceof Error ? error.cause : undefined;
  if (!refusals.test(String(refusal))) throw error;
  throw new InstanceFailed({ code: 'gpu', detail: String(refusal) }, error);
};
