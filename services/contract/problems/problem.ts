import { z } from 'zod';
import { errorCodes, errorReasons } from './errors.ts';

/** RFC 9457 problem details, the body of every response with a status of 400 or above. */
export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'The path of the page about this kind of problem, on the same server.' }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum(errorCodes),
    reason: z.enum(errorReasons).optional().meta({
      description: 'The reason, where a code has several that programs may have to distinguish.',
    }),
    requestId: z.string(),
    retryAfterSeconds: z.number().optional().meta({
      description: 'When to try again after a temporary refusal; over HTTP also the header Retry-After.',
    }),
    errors: z
      .array(z.object({ pointer: z.string(), detail: z.string() }))
      .optional()
      .meta({
        description: 'For invalid input: its place, as a JSON pointer into the body, /query, /path or /headers.',
      }),
    quota: z
      .object({ name: z.string(), limit: z.number(), used: z.number() })
      .optional()
      .meta({ description: 'For quota_exceeded: the quota, what it allows, and what was in use.' }),
  })
  .meta({ id: 'Problem' });

export type Problem = z.infer<typeof problemSchema>;
