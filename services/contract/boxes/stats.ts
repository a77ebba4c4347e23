import { z } from 'zod';

const bytes = z.int().min(0);
const count = z.int().min(0);

/** How full a volume is, in bytes. */
export const volumeSchema = z.object({ usedBytes: bytes, limitBytes: bytes });

/** Current and peak usage of a box, against its limits. All of it is measured outside the box, except for the disk. */
export const boxStatsSchema = z
  .object({
    at: z.iso.datetime().meta({ description: 'When it was measured.' }),
    cpu: z.object({
      usedMs: count.meta({
        description:
          'CPU time of all its processes since the box was started; with cpuSeconds, since it was ready to use.',
      }),
      limitCpus: z.number(),
      limitMs: count.nullable().meta({ description: 'The total that it may use (cpuSeconds); null without a limit.' }),
    }),
    memory: z.object({
      usedBytes: bytes.meta({ description: 'Memory in use, without page cache that can be dropped.' }),
      peakBytes: bytes.nullable().meta({
        description: 'Peak memory so far, including page cache; null if the host does not report it.',
      }),
      limitBytes: bytes,
    }),
    disk: volumeSchema.nullable().meta({ description: 'The volume of the box; null when the box does not respond.' }),
    pids: z.object({ count, limit: count }).meta({ description: 'Processes and threads.' }),
    oomKills: count.nullable().meta({
      description: 'Processes that were killed because memory ran out; null where the host does not count them.',
    }),
  })
  .meta({ id: 'BoxStats' });

export type BoxStats = z.infer<typeof boxStatsSchema>;

/** One sample of a live stream; `seq` counts from 1 without gaps. */
export const boxStatsEventSchema = boxStatsSchema
  .extend({ seq: z.int().min(1), type: z.literal('stats') })
  .meta({ id: 'BoxStatsEvent' });

export type BoxStatsEvent = z.infer<typeof boxStatsEventSchema>;

/** Query of the statistics: the interval between two samples of a stream. */
export const boxStatsQuerySchema = z.strictObject({ everySeconds: z.coerce.number().min(0.5).max(60).default(2) });
