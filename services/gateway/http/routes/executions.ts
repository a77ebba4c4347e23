import { z } from 'zod';
import {
  afterQuerySchema,
  CodeBoxError,
  createExecutionSchema,
  type ExecutionEvent,
  executionCodeQuerySchema,
  executionEventSchema,
  executionInputSchema,
  executionPageSchema,
  executionSchema,
  executionSummarySchema,
  pageQuerySchema,
} from '#contract';
import { resumeAfter } from '../../../http/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import { toExecution, toExecutionSummary } from '../../boxes/runs/execution-view.ts';
import type { Executions } from '../../boxes/runs/executions.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Endpoints } from '../endpoint.ts';
import { createWholeAnswers } from '../idempotency/whole-answers.ts';
import { boxParams } from './boxes.ts';
import { createRunAnswers } from './run-answers.ts';

const params = boxParams.extend({ execution: z.string().max(64) });
const tag = 'Executions';
const executionTypes = {
  'application/json': executionSchema,
  'text/event-stream': executionEventSchema,
  'application/x-ndjson': executionEventSchema,
};

/** `/v1/boxes/{box}/executions`: run code, read it, stream it, answer it, stop it. */
export const addExecutionRoutes = ({ add }: Endpoints, executions: Executions, stopping: AbortSignal): void => {
  const whole = createWholeAnswers();
  const answers = createRunAnswers<ExecutionEvent, ExecutionRow>(
    {
      name: 'executions',
      async find({ ref, id }) {
        const { row, done, events } = await executions.read(ref, id);
        if (row.status !== 'running' || done || events) return row;
        // Noted, but not yet in its box, where it may still be refused.
        const text = 'The first request with this Idempotency-Key is still in progress.';
        throw new CodeBoxError('conflict', text, { reason: 'key_in_use', retryAfterSeconds: 1 });
      },
      events: ({ ref, id }, after, leave) => executions.events(ref, id, after, leave),
      summary: (_, row) => toExecutionSummary({ row, done: row.done }),
      whole(_, row, events) {
        const done = events.at(-1);
        return toExecution({ row, done: done?.type === 'done' ? done : null, events });
      },
    },
    stopping,
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/executions',
      scope: 'run',
      summary: 'Run code; wait for its end, stream its events, or detach',
      tag,
      params: boxParams,
      body: createExecutionSchema,
      codeQuery: executionCodeQuerySchema,
      bounds: largeJson,
      idempotent: {
        replay: ({ c, tenant, body }, location) => answers.replay(c, answers.placeOf(tenant, location), body.detach),
        cameToNothing: (tenant, location) => {
          const { ref, id } = answers.placeOf(tenant, location);
          return executions.hasNeverStarted(ref, id);
        },
      },
      responses: {
        200: { description: 'The whole execution, or its events by Accept.', types: executionTypes },
        202: { description: 'It runs; its events are at Location.', schema: executionSummarySchema },
      },
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return answers.start(c, ref, async (leave, onAccepted) => {
        const told = onAccepted && ((row: ExecutionRow) => onAccepted(row.id));
        const { row, events } = await executions.start(ref, body, leave, told);
        return { id: row.id, events, asked: row };
      });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/executions',
      scope: 'boxes:read',
      summary: 'List executions, the newest first',
      tag,
      params: boxParams,
      query: pageQuerySchema,
      responses: { 200: { description: 'A page of executions.', schema: executionPageSchema } },
    },
    async ({ c, tenant, params, query }) => {
      const page = await executions.list({ tenant, box: params.box }, query);
      return c.json({ items: page.items.map(toExecutionSummary), nextCursor: page.nextCursor });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/executions/{execution}',
      scope: 'boxes:read',
      summary: 'Read an execution with its outputs until now',
      tag,
      params,
      responses: { 200: { description: 'The execution.', schema: executionSchema } },
    },
    ({ c, tenant, params: { box, execution } }) =>
      whole(c, box, async () => c.json(toExecution(await executions.read({ tenant, box }, execution)))),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/executions/{execution}/events',
      scope: 'boxes:read',
      summary: 'Stream its events again from any point; goes on live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description: 'Its events; NDJSON unless Accept asks for SSE.',
          types: { 'application/x-ndjson': executionEventSchema, 'text/event-stream': executionEventSchema },
        },
        204: { description: 'It has ended and nothing comes after this.' },
      },
    },
    async ({ c, tenant, params, query }) => {
      const ref = { tenant, box: params.box };
      const { done } = await executions.find(ref, params.execution);
      // What tells an EventSource to stop reconnecting.
      if (done && done.seq <= resumeAfter(c, query.after)) return c.body(null, 204);
      return answers.events(c, { ref, id: params.execution }, query.after);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/executions/{execution}/input',
      scope: 'run',
      summary: 'Answer input()',
      tag,
      params,
      body: executionInputSchema,
      bounds: largeJson,
      responses: { 204: { description: 'It has it.' } },
    },
    async ({ c, tenant, params, body }) => {
      await executions.input({ tenant, box: params.box }, params.execution, body.text);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/executions/{execution}/interrupt',
      scope: 'run',
      summary: 'Stop it; variables are kept',
      tag,
      params,
      responses: { 202: { description: 'It is being stopped; done tells how that went.' } },
    },
    async ({ c, tenant, params }) => {
      await executions.interrupt({ tenant, box: params.box }, params.execution);
      return c.body(null, 202);
    },
  );
};
