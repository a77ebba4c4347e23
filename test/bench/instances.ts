import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cgroupOf, readCgroupUsage } from '../../services/gateway/drivers/host/cgroup.ts';
import { type Footprint, footprint } from './footprint.ts';
import { type GatewayProcess, instanceIds } from './gateway-process.ts';
import { proportionalMiB } from './process-memory.ts';
import { mustRun } from './program.ts';

type Of = Pick<GatewayProcess, 'driver' | 'dataDir'>;

/** The first processes of all instances of a gateway, warm ones included, as process ids of this host. */
export const instancePids = async ({ driver, dataDir }: Of): Promise<number[]> => {
  const ids = await instanceIds(dataDir);
  if (driver === 'docker') return containerPids('codebox.instance', ids);
  const notes = ids.map((id) => readFile(join(dataDir, 'local/instances', id, 'init'), 'utf8'));
  return (await Promise.all(notes)).map((note) => Number.parseInt(note, 10));
};

/** The first processes of the running containers whose label has one of the values, as process ids of this host. */
export const containerPids = async (label: string, values: readonly string[]): Promise<number[]> => {
  const format = `{{.ID}} {{.Label "${label}"}}`;
  const listed = await mustRun(['docker', 'ps', '--filter', `label=${label}`, '--format', format]);
  const containers = listed.split('\n').flatMap((line) => {
    const [container = '', value = ''] = line.split(' ');
    return values.includes(value) ? [container] : [];
  });
  if (containers.length === 0) return [];
  const pids = await mustRun(['docker', 'inspect', '--format', '{{.State.Pid}}', ...containers]);
  return pids.split('\n').map(Number);
};

/** The memory of a container with the process that keeps it. */
export const containerFootprint = async (pid: number): Promise<Footprint> => {
  const [{ group, share }, keeper] = [await footprint(pid), await proportionalMiB(await parentOf(pid))];
  return { group: group + keeper, share: share + keeper };
};

/** The memory of the instance of a process; that of a container includes the process that keeps it. */
export const instanceFootprint = ({ driver }: Of, pid: number): Promise<Footprint> =>
  driver === 'docker' ? containerFootprint(pid) : footprint(pid);

/** The CPU time that the control group of an instance has used, in ms. */
export const instanceCpuMs = async (pid: number): Promise<number> => {
  const folders = await cgroupOf(pid);
  const usage = folders && (await readCgroupUsage(folders));
  if (usage?.cpuMs === undefined) throw new Error('the control group of the instance cannot be read');
  return usage.cpuMs;
};

const parentOf = async (pid: number): Promise<number> => {
  const parent = /^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (parent === undefined) throw new Error(`process ${pid} has no parent`);
  return Number(parent);
};
