import { setTimeout as sleep } from 'node:timers/promises';
import { type BoxStats, type BoxStatsEvent, CodeBoxError, hasCode } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { BoxUsage } from '../life/box-usage.ts';
import { limitMs } from '../life/cpu-budget.ts';
import type { Directory, ReachableBox } from '../life/directory.ts';

export interface StatsOptions {
  usage: BoxUsage;
  directory: Pick<Directory, 'look'>;
}

const deadlineMs = 5000;
const MiB = 1024 * 1024;

/** Samples the resource use of boxes, which does not count as activity. */
export const createStats = ({ usage, directory }: StatsOptions) => {
  const sample = async ({ box, instance, server }: ReachableBox): Promise<BoxStats> => {
    const signal = AbortSignal.timeout(deadlineMs);
    const [used, reported] = await Promise.all([
      usage({ box, instance }),
      // The figures of the host do not depend on the box, which may be stuck, frozen or hostile.
      server.stats(signal).catch(() => ({ disk: null })),
    ]);
    if (!used) throw new CodeBoxError('unavailable', 'The box cannot be measured now.', { retryAfterSeconds: 1 });
    const { cpus, memoryMb, diskMb, pids } = box.limits;
    const limitBytes = Math.min(reported.disk?.limitBytes ?? 0, diskMb * MiB);
    return {
      at: used.at.toISOString(),
      cpu: { usedMs: used.cpuMs, limitCpus: cpus, limitMs: limitMs(box.limits) ?? null },
      memory: { usedBytes: used.memoryBytes, peakBytes: used.peakMemoryBytes ?? null, limitBytes: memoryMb * MiB },
      disk: reported.disk && { usedBytes: Math.min(reported.disk.usedBytes, limitBytes), limitBytes },
      pids: { count: used.pids, limit: pids },
      oomKills: used.oomKills ?? null,
    };
  };

  const read = async (ref: BoxRef): Promise<BoxStats> => await sample(await directory.look(ref));

  return {
    read,

    /** Yields a sample now and one after each pause, until the box ends or hibernates. Throws if it has ended before the first sample. */
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

/** Returns whether an error means that the box ended or hibernates. */
const isGone = (error: unknown): boolean => hasCode(error, 'gone') || hasCode(error, 'conflict');
