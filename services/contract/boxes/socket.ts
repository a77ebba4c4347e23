import { z } from 'zod';
import { problemSchema } from '../problems/problem.ts';
import { executionEventSchema } from '../runs/events.ts';
import { executionFields, executionInputSchema, languageOrContext } from '../runs/executions.ts';
import { plainText } from '../values/text.ts';
import { ticketParameter } from './tickets.ts';

/** The client's name for one of its operations; the frames that reply to it carry the same id. */
export const frameIdSchema = plainText().min(1).max(128);

const id = frameIdSchema;
const execution = plainText().max(64);

export const socketQuerySchema = z.strictObject({ ticket: ticketParameter });

/** A frame of the client. An id can be reused once its operation is over. */
export const socketRequestSchema = z
  .discriminatedUnion('op', [
    languageOrContext(z.strictObject({ id, op: z.literal('execute'), ...executionFields })),
    z.strictObject({
      id,
      op: z.literal('attach'),
      execution,
      after: z.int().min(0).optional().meta({ description: 'Only events after this seq. Default 0.' }),
    }),
    z.strictObject({ id, op: z.literal('input'), execution, text: executionInputSchema.shape.text }),
    z.strictObject({ id, op: z.literal('interrupt'), execution }),
    z.strictObject({ op: z.literal('ping') }),
  ])
  .meta({ id: 'SocketRequest' });

export type SocketRequest = z.infer<typeof socketRequestSchema>;

/**
 * A frame of the server. Each operation gets one `accepted` or `problem`; the events of `execute` and `attach` follow
 * until `done`, or until a `problem` when they break off. `id` is null for a frame that had none.
 */
export const socketMessageSchema = z
  .discriminatedUnion('type', [
    z.object({ id, type: z.literal('accepted'), execution }),
    z.object({ id, type: z.literal('event'), execution, event: executionEventSchema }),
    z.object({ id: id.nullable(), type: z.literal('problem'), problem: problemSchema }),
    z.object({ type: z.literal('pong') }),
  ])
  .meta({ id: 'SocketMessage' });

export type SocketMessage = z.infer<typeof socketMessageSchema>;
