import { type Cause, hasCode } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Driver, InstanceUsage } from '../../drivers/driver.ts';
import type { Store } from '../../store/store.ts';
import { overQuota } from '../../store/usage/over-quota.ts';
import type { BoxOverCpu, QuotaStore } from '../../store/usage/quotas.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import type { Recorder } from '../life/recorder.ts';
import type { Rest } from '../rest/rest.ts';
import { lostEvent } from '../runs/following.ts';
import { sampleUsage } from '../usage/sample.ts';

export interface CpuQuotaOptions {
  driver: Pick<Driver, 'site' | 'usage' | 'capabilities'>;
  lifecycle: Pick<Lifecycle, 'end'>;
  quotas: Pick<QuotaStore, 'overCpuToday'>;
  executions: Pick<Store['executions'], 'runningIn'>;
  connections: Pick<BoxConnections, 'to'>;
  rest: Pick<Rest, 'halt'>;
  recorder: Recorder;
  background: Background;
  /** How late the use of a box by another gateway may be written. */
  lagMs: number;
}

/** What is remembered of an instance while its tenant is over its quota. */
interface Seen {
  cpuMs: number;
  at: number;
  /** Looks before which it was busy without anybody's use, less those before which it was not. */
  busyLooks: number;
  /** When that was none. */
  calmAt: number;
  /** CPU time while it was busy and callers used it. */
  usedMs: number;
}

const page = 16;
const sampleMs = 2000;
const stopDeadlineMs = 2000;
/** What a box uses without anybody's doing between two looks. */
const idleMs = 50;
/** A box is busy that uses this much of a CPU, or half of what it has; on a host that is busy itself it gets no more. */
const busyShare = 0.1;
/** One that was busy before so many looks, and for so long, does not end what runs there: it is frozen. */
const busyLooks = 12;
const busyMs = 20_000;
/** CPU time that transfers of files, and the like, may take besides: whoever has an end of them could go on for ever. */
const maxUsedMs = 30 * 60_000;
const maxRuns = 1000;

/**
 * The end of the day's CPU time of a tenant, for what runs. Its boxes are told to end all that runs in them, again and again while they
 * use CPU time. That is enough for any box whose server works. Another one, whose code has got the better of its server, is frozen
 * once it has been busy for a dozen looks. Files stay, and can be read in all boxes but frozen ones. Any number of gateways may do so
 * at once: nothing is done twice.
 */
export const createCpuQuota = (options: CpuQuotaOptions) => {
  const { driver, lifecycle, quotas, executions, connections, rest, recorder, background, lagMs } = options;
  let seen = new Map<string, Seen>();

  /** Frozen, a box can say no more of its runs: they are lost, and why. */
  const freeze = async ({ box, instance }: BoxOverCpu, cause: Cause): Promise<void> => {
    const loseRuns = async () => {
      // Ends that it has told before come first.
      await recorder.flush();
      for (const row of await executions.runningIn(box.id, maxRuns)) recorder.record(row, lostEvent(1, cause));
      await recorder.flush();
    };
    await rest.halt(box.id, instance, loseRuns).catch((error: unknown) => {
      // It has ended: the next look tells.
      if (!(hasCode(error, 'conflict') || hasCode(error, 'gone'))) throw error;
    });
  };

  /** Where boxes cannot be frozen, one that does not end what runs in it is ended itself. */
  const still = async (found: BoxOverCpu, cause: Cause): Promise<void> => {
    if (driver.capabilities.freeze) return await freeze(found, cause);
    await lifecycle.end(found.box.id, 'deleting', { code: 'cpu_limit', detail: cause.detail });
  };

  const judge = ({ cpus, isUsed }: BoxOverCpu, used: InstanceUsage, last: Seen | undefined): Seen => {
    const { cpuMs } = used;
    const at = used.at.getTime();
    if (!last) return { cpuMs, at, busyLooks: 0, calmAt: at, usedMs: 0 };
    const elapsedMs = at - last.at;
    const isBusy = cpuMs - last.cpuMs >= Math.min(busyShare, cpus / 2) * elapsedMs;
    if (isBusy && isUsed && last.usedMs < maxUsedMs)
      return { ...last, cpuMs, at, usedMs: last.usedMs + cpuMs - last.cpuMs };
    // One that pauses now and then does not begin anew by that.
    const looks = Math.max(0, last.busyLooks + (isBusy ? 1 : -1));
    return { ...last, cpuMs, at, busyLooks: looks, calmAt: looks > 0 ? last.calmAt : at };
  };

  const enforce = async (found: BoxOverCpu, last: Seen | undefined, used: InstanceUsage | undefined): Promise<void> => {
    // Of one that cannot be measured now, or was not measured since, the time goes on.
    if (last) seen.set(found.instance, last);
    if (!used || used.at.getTime() === last?.at) return;
    const { cpuMs } = used;
    const now = judge(found, used, last);
    seen.set(found.instance, now);
    const { message: detail, quota } = overQuota(found.quota, 0);
    if (now.busyLooks >= busyLooks && now.at - now.calmAt >= busyMs)
      return await still(found, { code: 'cpu_limit', detail, ...(quota && { quota }) });
    if (last === undefined || cpuMs - last.cpuMs > idleMs)
      await connections
        .to(found.instance, found.address)
        .stop({ detail, quota: found.quota }, AbortSignal.timeout(stopDeadlineMs));
  };

  const sweep = async (): Promise<void> => {
    const before = seen;
    seen = new Map();
    for (let after = ''; !background.signal.aborted; ) {
      const found = await quotas.overCpuToday(driver.site, after, lagMs, page);
      const ids = found.map(({ instance }) => instance);
      const used = await sampleUsage(driver, ids, sampleMs);
      await Promise.all(
        found.map((one) =>
          background.attempt('end what runs over a quota', () =>
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
    /** Looks at the boxes of all tenants that are over, beside the other sweeps: a stuck box must not keep them waiting. */
    sweep: background.oneAtATime('look for tenants over their CPU time', sweep),
  };
};

export type CpuQuota = ReturnType<typeof createCpuQuota>;
