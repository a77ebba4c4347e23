import { z } from 'zod';
import {
  afterQuerySchema,
  createCellSchema,
  executionEventSchema,
  executionInputSchema,
  executionSchema,
} from '#contract';
import { resumeAfter, streamFormat } from '../../../http/bodies/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Cells } from '../../chats/console/cells.ts';
import type { Endpoints } from '../endpoints.ts';
import { sendEvents } from '../send-events.ts';
import { chatParams } from './chats.ts';

const params = chatParams.extend({ execution: z.string().max(64) });
const tag = 'Cells';
const eventTypes = { 'text/event-stream': executionEventSchema, 'application/x-ndjson': executionEventSchema };

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
          types: { 'application/json': executionSchema, ...eventTypes },
        },
      },
    },
    async ({ c, owner, params, body }) => {
      const locate = (id: string) => c.header('Content-Location', `/v1/chats/${params.chat}/cells/${id}`);
      if (!streamFormat(c)) {
        const execution = await cells.run(owner, params.chat, body);
        locate(execution.id);
        return c.json(execution);
      }
      const leave = new AbortController();
      const { id, events } = await cells.stream(owner, params.chat, body, leave.signal);
      locate(id);
      return sendEvents(c, { events, leave, stopping });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/chats/{chat}/cells/{execution}/events',
      summary: 'Stream the events of a cell from any point, live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: { description: 'The events; NDJSON unless Accept asks for SSE.', types: eventTypes },
        204: { description: 'The cell has ended and no events follow.' },
      },
    },
    async ({ c, owner, params, query }) => {
      const leave = new AbortController();
      const after = resumeAfter(c, query.after);
      const events = await cells.follow(owner, params.chat, params.execution, after, leave.signal);
      if (!events) return c.body(null, 204);
      return sendEvents(c, { events, leave, stopping });
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
