import { z } from 'zod';
import { errorCodes } from './errors.ts';

/** RFC 9457 problem details, the body of every answer with a status of 400 and above. */
export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'The path of the page about this kind of problem, at the same server.' }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum(errorCodes),
    requestId: z.string(),
    retryAfterSeconds: z.number().optional().meta({
      description: 'When it may go better, of what was refused for now; over HTTP also the header Retry-After.',
    }),
    errors: z
      .array(z.object({ pointer: z.string(), detail: z.string() }))
      .optional()
      .meta({ description: 'For bad input: where it is, as a JSON pointer into the body, /query, /path or /headers.' }),
    quota: z
      .object({ name: z.string(), limit: z.number(), used: z.number() })
      .optional()
      .meta({ description: 'For quota_exceeded: which one, what it allows, and what was in use.' }),
  })
  .meta({ id: 'Problem' });

export type Problem = z.infer<typeof problemSchema>;
