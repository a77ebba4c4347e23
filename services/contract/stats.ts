import { z } from 'zod';

const bytes = z.int().min(0);
const count = z.int().min(0);

/** How full a volume is, in bytes. */
export const volumeSchema = z.object({ usedBytes: bytes, limitBytes: bytes });

/** What a box uses now and at most, against its limits. Counted outside of the box, but for the disk. */
export const boxStatsSchema = z
  .object({
    at: z.iso.datetime(),
    cpu: z.object({
      usedMs: count.meta({
        description: 'CPU time of all its processes since it was started; with cpuSeconds since it was ready to use.',
      }),
      limitCpus: z.number(),
      limitMs: count.nullable().meta({ description: 'What it may use in all (cpuSeconds); null without a limit.' }),
    }),
    memory: z.object({
      usedBytes: bytes.meta({ description: 'Without page cache that can be dropped.' }),
      peakBytes: bytes.meta({ description: 'The most so far, page cache included.' }),
      limitBytes: bytes,
    }),
    disk: volumeSchema.nullable().meta({ description: 'Its volume; null when the box does not answer.' }),
    pids: z.object({ count, limit: count }).meta({ description: 'Processes and threads.' }),
    oomKills: count.meta({ description: 'Processes that were ended for want of memory, where the host counts them.' }),
  })
  .meta({ id: 'BoxStats' });

export type BoxStats = z.infer<typeof boxStatsSchema>;

/** One sample of a live stream; `seq` counts from 1 without gaps. */
export const boxStatsEventSchema = boxStatsSchema
  .extend({ seq: z.int().min(1), type: z.literal('stats') })
  .meta({ id: 'BoxStatsEvent' });

export type BoxStatsEvent = z.infer<typeof boxStatsEventSchema>;

/** Query of the statistics: the pause between two samples of a stream. */
export const boxStatsQuerySchema = z.strictObject({ everySeconds: z.coerce.number().min(0.5).max(60).default(2) });
