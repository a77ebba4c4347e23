import { access, constants, readFile, writeFile } from 'node:fs/promises';
import { CodeBoxError } from '#contract';
import type { BindableLimits } from '../driver.ts';
import { type CgroupFolders, readCgroupUsage } from './cgroup.ts';

const MiB = 1024 * 1024;
const cpuPeriodUs = 100_000;

/** Whether this process may set the limits of a control group. */
export const canWriteCgroup = ({ memory, unified }: CgroupFolders): Promise<boolean> =>
  access(memory === undefined ? `${unified}/memory.max` : `${memory}/memory.limit_in_bytes`, constants.W_OK).then(
    () => true,
    () => false,
  );

/** Sets limits of a control group, with or without processes in it. Throws `unavailable` when the kernel refuses. */
export const writeCgroupLimits = async (folders: CgroupFolders, limits: Partial<BindableLimits>): Promise<void> => {
  const { memoryMb, cpus, pids } = limits;
  try {
    await checkMemoryUse(folders, limits);
    await Promise.all([
      memoryMb !== undefined && setMemory(folders, memoryMb * MiB),
      pids !== undefined && set(`${folders.pids ?? folders.unified}/pids.max`, pids),
      cpus !== undefined && setCpus(folders, Math.round(cpus * cpuPeriodUs)),
    ]);
  } catch (cause) {
    if (cause instanceof CodeBoxError) throw cause;
    throw new CodeBoxError('unavailable', 'The limits of a box could not be set.', { cause, retryAfterSeconds: 5 });
  }
};

const setCpus = async ({ cpu, unified }: CgroupFolders, quotaUs: number): Promise<void> => {
  if (cpu === undefined) return await set(`${unified}/cpu.max`, `${quotaUs} ${cpuPeriodUs}`);
  await set(`${cpu}/cpu.cfs_period_us`, cpuPeriodUs);
  await set(`${cpu}/cpu.cfs_quota_us`, quotaUs);
};

const setMemory = async (folders: CgroupFolders, bytes: number): Promise<void> => {
  const { memory, unified } = folders;
  if (memory === undefined) {
    await set(`${unified}/memory.max`, bytes);
    await setIfThere(`${unified}/memory.swap.max`, 0);
    return;
  }
  const raises = bytes > Number(await read(`${memory}/memory.limit_in_bytes`));
  // The limit of memory and swap together must never be below that of memory, which determines the order.
  if (raises) await setIfThere(`${memory}/memory.memsw.limit_in_bytes`, bytes);
  await set(`${memory}/memory.limit_in_bytes`, bytes);
  if (!raises) await setIfThere(`${memory}/memory.memsw.limit_in_bytes`, bytes);
  await setIfThere(`${memory}/memory.swappiness`, 0);
};

/**
 * Throws `unavailable` when a new memory limit would be below the usage. Version 1 of control groups refuses that by itself; version 2 would
 * kill processes until the limit is met.
 */
export const checkMemoryUse = async (
  folders: CgroupFolders,
  { memoryMb = Number.POSITIVE_INFINITY }: Partial<BindableLimits>,
): Promise<void> => {
  if (folders.memory !== undefined) return;
  const used = (await readCgroupUsage(folders))?.memoryBytes ?? 0;
  if (used > memoryMb * MiB) throw new CodeBoxError('unavailable', 'The box uses more memory than its new limit.');
};

/** Throws `unavailable` unless these limits of the control group are in force, with no swap on top of the memory. */
export const checkCgroupLimits = async (folders: CgroupFolders, limits: Partial<BindableLimits>): Promise<void> => {
  const { swapBytes, ...found } = await readLimits(folders);
  for (const name of ['cpus', 'memoryMb', 'pids'] as const) {
    const wanted = limits[name];
    // A quota is a whole number of microseconds.
    if (wanted !== undefined && !(Math.abs(found[name] - wanted) < 1e-4)) notInForce(name, found[name], wanted);
  }
  if (limits.memoryMb !== undefined && swapBytes > 0) notInForce('swap', swapBytes, 0);
};

const notInForce = (name: string, found: number, wanted: number): never => {
  throw new CodeBoxError('unavailable', 'A limit of the box is not in force.', {
    cause: new Error(`${name} is ${found} and not ${wanted}`),
  });
};

/** Reads the limits; NaN for one that is not set or cannot be read. Swap that the kernel does not limit counts as 0, and is a listed weakness. */
const readLimits = async (folders: CgroupFolders): Promise<BindableLimits & { swapBytes: number }> => {
  const { memory, cpu, unified } = folders;
  const pidsFile = `${folders.pids ?? unified}/pids.max`;
  if (memory === undefined) {
    const files = [pidsFile, `${unified}/cpu.max`, `${unified}/memory.max`, `${unified}/memory.swap.max`];
    const [pids, cpuMax, memoryMax, swapMax] = await Promise.all(files.map(read));
    const [quota, period] = (cpuMax ?? '').split(' ');
    const memoryMb = Number(memoryMax) / MiB;
    return { pids: Number(pids), memoryMb, cpus: Number(quota) / Number(period), swapBytes: Number(swapMax ?? 0) };
  }
  const [pids, bytes, withSwap, quota, period] = await Promise.all(
    [
      pidsFile,
      `${memory}/memory.limit_in_bytes`,
      `${memory}/memory.memsw.limit_in_bytes`,
      `${cpu}/cpu.cfs_quota_us`,
      `${cpu}/cpu.cfs_period_us`,
    ].map(read),
  );
  const swapBytes = Number(withSwap ?? bytes) - Number(bytes);
  return { pids: Number(pids), memoryMb: Number(bytes) / MiB, cpus: Number(quota) / Number(period), swapBytes };
};

const set = (path: string, value: string | number): Promise<void> => writeFile(path, String(value));

const setIfThere = async (path: string, value: number): Promise<void> => {
  // Swap accounting depends on the kernel's configuration; without it the posture lists a weakness.
  if ((await read(path)) !== undefined) await set(path, value);
};

const read = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
};
