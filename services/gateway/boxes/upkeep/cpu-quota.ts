import { type Cause, hasCode } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { Store } from '../../store/store.ts';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { BoxOverCpu, QuotaStore } from '../../store/usage/quotas.ts';
import type { Endings } from '../life/endings.ts';
import type { Recorder } from '../life/recorder.ts';
import type { Rest } from '../rest/rest.ts';
import { lostEvent } from '../runs/following.ts';
import { sampleUsage } from '../usage/sample.ts';

export interface CpuQuotaOptions {
  driver: Pick<Driver, 'site' | 'usage' | 'capabilities'>;
  endings: Pick<Endings, 'end'>;
  quotas: Pick<QuotaStore, 'overCpuToday'>;
  executions: Pick<Store['executions'], 'runningIn'>;
  connections: Pick<BoxConnections, 'to'>;
  rest: Pick<Rest, 'halt'>;
  recorder: Recorder;
  background: Background;
  /** How late another gateway may write the use of a box. */
  lagMs: number;
}

/** Observations of an instance while its tenant is over its quota. */
interface Observed {
  cpuMs: number;
  at: number;
  /** Rises by 1 with each sample that is busy without a caller, and falls by 1 with each other sample. */
  busySamples: number;
  /** When `busySamples` was last 0. */
  calmAt: number;
  /** CPU time of busy samples while callers used the box. */
  usedMs: number;
}

const page = 16;
const sampleMs = 2000;
const stopDeadlineMs = 2000;
/** CPU time that an idle box uses between two samples. */
const idleMs = 50;
/** A box is busy that uses this share of a CPU, or half of its limit. On a busy host it may not get more. */
const busyShare = 0.1;
/** After this many busy samples over this time, a box does not stop its runs and is frozen. */
const maxBusySamples = 12;
const busyMs = 20_000;
/** CPU time that callers may use beyond the quota, for example by file transfers, which could otherwise go on forever. */
const maxUsedMs = 30 * 60_000;
const maxRuns = 1000;

/**
 * Enforces the daily CPU quota of tenants on running code. Boxes of a tenant over its quota are asked to stop their runs, repeatedly
 * while they use CPU time, which is enough as long as their box server works. A box whose code keeps the box server from that is frozen
 * after a dozen busy samples. Files stay, and remain readable except in frozen boxes. Any number of gateways may do so at once.
 */
export const createCpuQuota = (options: CpuQuotaOptions) => {
  const { driver, endings, quotas, executions, connections, rest, recorder, background, lagMs } = options;
  let observations = new Map<string, Observed>();

  /** Freezes a box and records its runs as lost, because a frozen box cannot report their ends. */
  const freeze = async ({ box, instance }: BoxOverCpu, cause: Cause): Promise<void> => {
    const loseRuns = async () => {
      // Ends that the box has reported come first.
      await recorder.flush();
      for (const row of await executions.runningIn(box.id, maxRuns)) recorder.record(row, lostEvent(1, cause));
      await recorder.flush();
    };
    await rest.halt(box.id, instance, loseRuns).catch((error: unknown) => {
      // The box has ended or changed: the next sweep sees that.
      if (!(hasCode(error, 'conflict') || hasCode(error, 'gone'))) throw error;
    });
  };

  /** Freezes a box that does not stop its runs, or ends it where boxes cannot be frozen. */
  const halt = async (found: BoxOverCpu, cause: Cause): Promise<void> => {
    if (driver.capabilities.freeze) return await freeze(found, cause);
    await endings.end(found.box.id, 'deleting', { code: 'cpu_limit', detail: cause.detail });
  };

  const judge = ({ cpus, isUsed }: BoxOverCpu, used: InstanceUsage, last: Observed | undefined): Observed => {
    const { cpuMs } = used;
    const at = used.at.getTime();
    if (!last) return { cpuMs, at, busySamples: 0, calmAt: at, usedMs: 0 };
    const elapsedMs = at - last.at;
    const isBusy = cpuMs - last.cpuMs >= Math.min(busyShare, cpus / 2) * elapsedMs;
    if (isBusy && isUsed && last.usedMs < maxUsedMs)
      return { ...last, cpuMs, at, usedMs: last.usedMs + cpuMs - last.cpuMs };
    // A single calm sample does not reset the count.
    const busySamples = Math.max(0, last.busySamples + (isBusy ? 1 : -1));
    return { ...last, cpuMs, at, busySamples, calmAt: busySamples > 0 ? last.calmAt : at };
  };

  const enforce = async (
    found: BoxOverCpu,
    last: Observed | undefined,
    used: InstanceUsage | undefined,
  ): Promise<void> => {
    // Without a new sample, the previous observation stays, so that its clock keeps running.
    if (last) observations.set(found.instance, last);
    if (!used || used.at.getTime() === last?.at) return;
    const { cpuMs } = used;
    const now = judge(found, used, last);
    observations.set(found.instance, now);
    const { message: detail, quota } = overQuota(found.quota, 0);
    if (now.busySamples >= maxBusySamples && now.at - now.calmAt >= busyMs)
      return await halt(found, { code: 'cpu_limit', detail, ...(quota && { quota }) });
    if (last === undefined || cpuMs - last.cpuMs > idleMs)
      await connections
        .to(found.instance, found.address)
        .stop({ detail, quota: found.quota }, AbortSignal.timeout(stopDeadlineMs));
  };

  const sweep = async (): Promise<void> => {
    const before = observations;
    observations = new Map();
    for (let after = ''; !background.signal.aborted; ) {
      const found = await quotas.overCpuToday(driver.site, after, lagMs, page);
      const ids = found.map(({ instance }) => instance);
      const used = await sampleUsage(driver, ids, sampleMs);
      await Promise.all(
        found.map((one) =>
          background.attempt('stop runs over a quota', () =>
            enforce(one, before.get(one.instance), used.get(one.instance)),
          ),
        ),
      );
      const end = found.at(-1);
      if (found.length < page || !end) return;
      after = end.instance;
    }
  };

  return {
    /** Whether boxes were over a quota at the last sweep. The next one forgets those that no longer are. */
    isBusy: (): boolean => observations.size > 0,
    /** Checks the boxes of all tenants over their quota. A stuck box does not hold up the other sweeps. */
    sweep: background.oneAtATime('check CPU quotas', sweep),
  };
};

export type CpuQuota = ReturnType<typeof createCpuQuota>;
