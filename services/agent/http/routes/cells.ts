import { z } from 'zod';
import { createCellSchema, executionEventSchema, executionInputSchema, executionSchema } from '#contract';
import { streamEvents, streamFormat } from '../../../http/bodies/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Cells } from '../../chats/console/cells.ts';
import type { Endpoints } from '../endpoints.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ execution: z.string().max(64) });
const tag = 'Cells';

/** `/v1/chats/{chat}/cells`: a notebook on the box of a chat, without a model. */
export const addCellRoutes = ({ add }: Endpoints, cells: Cells, stopping: AbortSignal): void => {
  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/cells',
      summary: 'Run code in the box of the chat; wait for its end, or stream its events',
      tag,
      params: chatParams,
      body: createCellSchema,
      bounds: largeJson,
      responses: {
        200: {
          description: 'The whole execution, or its events, depending on Accept; Content-Location has its id.',
          types: {
            'application/json': executionSchema,
            'text/event-stream': executionEventSchema,
            'application/x-ndjson': executionEventSchema,
          },
        },
      },
    },
    async ({ c, owner, params, body }) => {
      const format = streamFormat(c);
      const locate = (id: string) => c.header('Content-Location', `/v1/chats/${params.chat}/cells/${id}`);
      if (!format) {
        const execution = await cells.run(owner, params.chat, body);
        locate(execution.id);
        return c.json(execution);
      }
      const leave = new AbortController();
      const { id, events } = await cells.stream(owner, params.chat, body, leave.signal);
      locate(id);
      const onError = (err: unknown) =>
        c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke');
      return streamEvents(c, { format, events, leave, stopping, onError });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/cells/{execution}/interrupt',
      summary: 'Stop it; variables are kept',
      tag,
      params,
      responses: { 202: { description: 'The code is being stopped; the done event reports how it ended.' } },
    },
    async ({ c, owner, params }) => {
      await cells.interrupt(owner, params.chat, params.execution);
      return c.body(null, 202);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/chats/{chat}/cells/{execution}/input',
      summary: 'Send input to code that waits for it',
      tag,
      params,
      body: executionInputSchema,
      bounds: largeJson,
      responses: { 204: { description: 'It has it.' } },
    },
    async ({ c, owner, params, body }) => {
      await cells.input(owner, params.chat, params.execution, body.text);
      return c.body(null, 204);
    },
  );
};
