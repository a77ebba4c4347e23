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
import { resumeAfter } from '../../../../http/bodies/stream.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import { toExecution, toExecutionSummary } from '../../../boxes/runs/execution-view.ts';
import type { Executions } from '../../../boxes/runs/executions.ts';
import type { ExecutionRow } from '../../../store/box/executions.ts';
import type { Endpoints } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';
import { addInputRoute } from './input.ts';
import { createRunResponses, detachedHeaders, startedHeaders } from './run-responses.ts';

const params = boxParams.extend({ execution: z.string().max(64) });
const tag = 'Executions';
const executionTypes = {
  'application/json': executionSchema,
  'text/event-stream': executionEventSchema,
  'application/x-ndjson': executionEventSchema,
};

/** `/v1/boxes/{box}/executions`: start, read, stream and interrupt executions, and send input to them. */
export const addExecutionRoutes = (endpoints: Endpoints, executions: Executions, stopping: AbortSignal): void => {
  const { add } = endpoints;
  const runs = createRunResponses<ExecutionEvent, ExecutionRow>(
    {
      name: 'execution',
      async find({ ref, id }) {
        const known = await executions.find(ref, id);
        if (known.status !== 'running') return known;
        const { row, done, events } = await executions.read(ref, id);
        if (row.status !== 'running' || done || events) return row;
        // Recorded, but not in its box yet, which may still refuse it.
        const text = 'The first request with this Idempotency-Key is still in progress.';
        throw new CodeBoxError('conflict', text, { reason: 'key_in_use', retryAfterSeconds: 1 });
      },
      expectReader: (ref) => executions.expectReader(ref),
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
      summary: 'Run code: wait for the end, stream the events, or detach',
      tag,
      params: boxParams,
      body: createExecutionSchema,
      codeQuery: executionCodeQuerySchema,
      bounds: largeJson,
      idempotent: {
        replay: ({ c, tenant, params: { box }, body }, { id }) =>
          runs.replay(c, { ref: { tenant, box }, id }, body.detach),
        leftNothing: ({ tenant, params: { box } }, { id }) => executions.hasNeverStarted({ tenant, box }, id),
      },
      responses: {
        200: {
          description: 'The execution after its end, or its events, by Accept.',
          headers: startedHeaders,
          types: executionTypes,
        },
        202: {
          description: 'The execution runs; its events are at Location.',
          headers: detachedHeaders,
          schema: executionSummarySchema,
        },
      },
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return runs.start(c, ref, async (leave, onAccepted) => {
        const onRecorded = onAccepted && ((row: ExecutionRow) => onAccepted(row.id));
        const { row, events } = await executions.start(ref, body, leave, onRecorded);
        return { id: row.id, events, known: row };
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
      summary: 'Read an execution with its outputs so far',
      tag,
      params,
      responses: { 200: { description: 'The execution.', schema: executionSchema } },
    },
    ({ c, tenant, params: { box, execution } }) =>
      runs.sendLarge(c, box, async () => c.json(toExecution(await executions.read({ tenant, box }, execution)))),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/executions/{execution}/events',
      scope: 'boxes:read',
      summary: 'Stream the events of an execution from any point, then live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description: 'The events, as NDJSON unless Accept selects SSE.',
          types: { 'application/x-ndjson': executionEventSchema, 'text/event-stream': executionEventSchema },
        },
        204: { description: 'The execution has ended, and no event follows this point.' },
      },
    },
    async ({ c, tenant, params, query }) => {
      const ref = { tenant, box: params.box };
      const { done } = await executions.find(ref, params.execution);
      // A 204 makes an EventSource stop reconnecting.
      if (done && done.seq <= resumeAfter(c, query.after)) return c.body(null, 204);
      return runs.events(c, { ref, id: params.execution }, query.after);
    },
  );

  addInputRoute(endpoints, {
    path: '/v1/boxes/{box}/executions/{execution}/input',
    summary: 'Send a line of input to an execution that waits in input()',
    tag,
    params,
    body: executionInputSchema,
    write: ({ tenant, params: { box, execution }, body }) => executions.input({ tenant, box }, execution, body.text),
  });

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/executions/{execution}/interrupt',
      scope: 'run',
      summary: 'Interrupt an execution; variables are kept',
      tag,
      params,
      responses: { 202: { description: 'The execution is being interrupted; its `done` event has the result.' } },
    },
    async ({ c, tenant, params }) => {
      await executions.interrupt({ tenant, box: params.box }, params.execution);
      return c.body(null, 202);
    },
  );
};
