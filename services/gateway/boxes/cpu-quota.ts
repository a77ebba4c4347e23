import { type Cause, CodeBoxError } from '#contract';
import type { BoxConnections } from '../box-server/connections.ts';
import type { Driver } from '../drivers/driver.ts';
import { overQuota } from '../store/over-quota.ts';
import type { BoxOverCpu, QuotaStore } from '../store/quotas.ts';
import type { Store } from '../store/store.ts';
import type { Background } from './background.ts';
import { lostEvent } from './following.ts';
import type { Recorder } from './recorder.ts';
import type { Rest } from './rest.ts';

export interface CpuQuotaOptions {
  driver: Pick<Driver, 'name' | 'stats'>;
  quotas: Pick<QuotaStore, 'overCpuToday'>;
  executions: Pick<Store['executions'], 'runningIn'>;
  connections: Pick<BoxConnections, 'to'>;
  rest: Pick<Rest, 'pause'>;
  recorder: Recorder;
  background: Background;
}

/** What is remembered of an instance while its tenant is over its quota. */
interface Seen {
  cpuMs: number;
  stoppedAt: number;
  /** Its CPU time once all that ran there had had the time to end. */
  calmCpuMs?: number;
}

const page = 16;
const statsDeadlineMs = 2000;
const stopDeadlineMs = 5000;
/** What a box uses without anybody's doing between two looks. */
const idleMs = 50;
/** What a box may take to end all that runs: interrupts, new kernels. */
const endMs = 10_000;
/** What it may use after that, for callers who read what it has, before it is frozen. */
const graceMs = 3000;
const graceShare = 0.02;
const maxRuns = 1000;

/**
 * The end of the day's CPU time of a tenant, for what runs. Its boxes are told to end all that runs in them, again and again while they
 * use CPU time; one that goes on all the same, because its code does not let itself be ended, is frozen. Files stay, and can be read
 * in all boxes but frozen ones. Any number of gateways may do so at once: nothing is done twice.
 */
export const createCpuQuota = (options: CpuQuotaOptions) => {
  const { driver, quotas, executions, connections, rest, recorder, background } = options;
  let seen = new Map<string, Seen>();
  let isSweeping = false;

  /** Frozen, a box can say no more of its runs: they are lost, and why. */
  const freeze = async ({ box }: BoxOverCpu, cause: Cause): Promise<void> => {
    for (const row of await executions.runningIn(box.id, maxRuns)) recorder.record(row, lostEvent(1, cause));
    await rest.pause(box.tenantId, box.id).catch((error: unknown) => {
      // Something else is done about it, or it has ended: the next look tells.
      if (!(error instanceof CodeBoxError && (error.code === 'conflict' || error.code === 'gone'))) throw error;
    });
  };

  const enforce = async (found: BoxOverCpu, last: Seen | undefined): Promise<void> => {
    // Of one that cannot be asked now the time goes on.
    if (last) seen.set(found.instance, last);
    const { cpuMs } = await driver.stats(found.instance, AbortSignal.timeout(statsDeadlineMs));
    const now = performance.now();
    const calmForMs = now - (last?.stoppedAt ?? now) - endMs;
    const calmCpuMs = last?.calmCpuMs ?? (calmForMs > 0 ? cpuMs : undefined);
    const stoppedAt = last?.stoppedAt ?? now;
    seen.set(found.instance, { cpuMs, stoppedAt, ...(calmCpuMs !== undefined && { calmCpuMs }) });
    const { message: detail, quota } = overQuota(found.quota, 0);
    if (calmCpuMs !== undefined && cpuMs - calmCpuMs > graceMs + graceShare * calmForMs)
      return await freeze(found, { code: 'cpu_limit', detail, ...(quota && { quota }) });
    if (last === undefined || cpuMs - last.cpuMs > idleMs)
      await connections.to(found.address).stop({ detail, quota: found.quota }, AbortSignal.timeout(stopDeadlineMs));
  };

  const sweep = async (): Promise<void> => {
    const before = seen;
    seen = new Map();
    for (let after = ''; !background.signal.aborted; ) {
      const found = await quotas.overCpuToday(driver.name, after, page);
      await Promise.all(
        found.map((one) =>
          background.attempt('end what runs over a quota', () => enforce(one, before.get(one.instance))),
        ),
      );
      const end = found.at(-1);
      if (found.length < page || !end) return;
      after = end.instance;
    }
  };

  return {
    /** Looks at the boxes of all tenants that are over, beside the other sweeps: a stuck box must not keep them waiting. */
    sweep(): void {
      if (isSweeping) return;
      isSweeping = true;
      background.run('look for tenants over their CPU time', () =>
        sweep().finally(() => {
          isSweeping = false;
        }),
      );
    },
  };
};

export type CpuQuota = ReturnType<typeof createCpuQuota>;
