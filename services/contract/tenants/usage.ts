import { z } from 'zod';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';

const day = z.iso.date();

/** A day on which there can be records. */
export const dayQuerySchema = day.refine((text) => text >= '2000-01-01', 'must be from 2000 on');

/** Usage of one user's boxes on one day (UTC). */
export const usageSchema = z
  .object({
    day,
    user: z.string().nullable().meta({ description: 'Null for boxes without a user.' }),
    boxes: z.int().meta({ description: 'Boxes that became ready.' }),
    boxSeconds: z
      .number()
      .meta({ description: 'Time during which boxes existed, including paused boxes but not hibernated ones.' }),
    executions: z.int().meta({ description: 'Executions that ended, with any status.' }),
    wallMs: z.number().meta({ description: 'Their run time.' }),
    cpuMs: z.number().meta({ description: 'CPU time of everything in the boxes, as the host counts it.' }),
    peakMemoryBytes: z.number().meta({ description: 'The peak memory of a single box.' }),
  })
  .meta({ id: 'Usage' });

export type Usage = z.infer<typeof usageSchema>;

export const usagePageSchema = pageSchema('UsagePage', usageSchema);

/** The days from `from` to `to`, both inclusive; all users, or one. */
export const usageQuerySchema = pageQuerySchema.extend({
  from: dayQuerySchema.optional(),
  to: dayQuerySchema.optional(),
  user: plainText().max(256).optional(),
});

export type UsageQuery = z.infer<typeof usageQuerySchema>;
