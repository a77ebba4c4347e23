import { setTimeout as sleep } from 'node:timers/promises';
import { type BoxStats, type BoxStatsEvent, CodeBoxError, hasCode } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { UsableBox } from '../life/access.ts';
import type { BoxUsage } from '../life/box-usage.ts';
import { limitMs } from '../life/cpu-budget.ts';
import type { Lifecycle } from '../life/lifecycle.ts';

export interface StatsOptions {
  usage: BoxUsage;
  lifecycle: Lifecycle;
}

const deadlineMs = 5000;
const MiB = 1024 * 1024;

/** What boxes use. Looking at a box does not count as its use. */
export const createStats = ({ usage, lifecycle }: StatsOptions) => {
  const sample = async ({ box, instance, server }: UsableBox): Promise<BoxStats> => {
    const signal = AbortSignal.timeout(deadlineMs);
    const [used, told] = await Promise.all([
      usage({ box, instance }),
      // A box that is stuck, frozen or hostile has figures all the same.
      server.stats(signal).catch(() => ({ disk: null })),
    ]);
    if (!used) throw new CodeBoxError('unavailable', 'The box cannot be measured just now.', { retryAfterSeconds: 1 });
    const { cpus, memoryMb, diskMb, pids } = box.limits;
    const limitBytes = Math.min(told.disk?.limitBytes ?? 0, diskMb * MiB);
    return {
      at: used.at.toISOString(),
      cpu: { usedMs: used.cpuMs, limitCpus: cpus, limitMs: limitMs(box.limits) ?? null },
      memory: { usedBytes: used.memoryBytes, peakBytes: used.peakMemoryBytes ?? null, limitBytes: memoryMb * MiB },
      disk: told.disk && { usedBytes: Math.min(told.disk.usedBytes, limitBytes), limitBytes },
      pids: { count: used.pids, limit: pids },
      oomKills: used.oomKills ?? null,
    };
  };

  const read = async (ref: BoxRef): Promise<BoxStats> => await sample(await lifecycle.look(ref));

  return {
    read,

    /** A sample now and then one after each pause, to the end of the box, or until it hibernates; that before the first is thrown. */
    async *watch(ref: BoxRef, everyMs: number, signal: AbortSignal): AsyncGenerator<BoxStatsEvent> {
      for (let seq = 1; ; seq++) {
        const stats = await read(ref).catch((error: unknown) => {
          if (seq > 1 && isGone(error)) return undefined;
          throw error;
        });
        if (stats === undefined) return;
        yield { seq, type: 'stats', ...stats };
        await sleep(everyMs, undefined, { signal });
      }
    },
  };
};

export type Stats = ReturnType<typeof createStats>;

/** The box ended between two samples, or hibernates. */
const isGone = (error: unknown): boolean => hasCode(error, 'gone') || hasCode(error, 'conflict');
