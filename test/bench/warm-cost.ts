import { machineCpuMs } from './cpu-time.ts';
import { type GatewayOptions, startGateway } from './gateway-process.ts';
import { instanceCpuMs, instanceFootprint, instancePids } from './instances.ts';
import { type Measure, measure } from './report.ts';
import { untilWarm } from './warm-pool.ts';

const MiBInGiB = 1024;

/** What idle warm boxes take, each with a Python kernel that has loaded its libraries, and how fast a pool of `size` is refilled. */
export const measureWarmCost = async (name: string, own: GatewayOptions, size: number): Promise<Measure[]> => {
  const room = { CODEBOX_MAX_BOXES: String(2 * size), CODEBOX_MAX_MEMORY_MB: '200000' };
  await using gateway = await startGateway({ ...own, warm: size, settings: { ...own.settings, ...room } });
  await untilWarm(gateway, size);
  const pids = await instancePids(gateway);
  const cpu = await Promise.all(pids.map(instanceCpuMs));
  const groups: number[] = [];
  const shares: number[] = [];
  for (const pid of pids) {
    const { group, share } = await instanceFootprint(gateway, pid);
    groups.push(group);
    shares.push(share);
  }
  // Claimed at once, so that the pool is refilled as fast as it can be.
  const [startedAt, before] = [performance.now(), await machineCpuMs()];
  await Promise.all(Array.from({ length: size }, () => gateway.client.create()));
  await untilWarm(gateway, size);
  const [refilledIn, busy] = [performance.now() - startedAt, (await machineCpuMs()) - before];
  return [
    measure(`${name}: CPU of a warm box`, 'ms', cpu),
    measure(`${name}: CPU of the whole machine for a warm box`, 'ms', [busy / size]),
    measure(`${name}: memory of a warm box`, 'MiB', groups),
    measure(`${name}: PSS of a warm box`, 'MiB', shares),
    measure(`${name}: boxes by memory`, 'per GiB', [perGiB(groups)]),
    measure(`${name}: boxes by PSS`, 'per GiB', [perGiB(shares)]),
    measure(`${name}: refilled`, 'per second', [(size * 1000) / refilledIn]),
  ];
};

const perGiB = (values: readonly number[]): number =>
  (MiBInGiB * values.length) / values.reduce((sum, one) => sum + one, 0);
