import type { Context } from 'hono';
import { z } from 'zod';
import {
  afterQuerySchema,
  CodeBoxError,
  type CreateExecution,
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
import { resumeAfter, streamEvents, streamFormat } from '../../../http/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import { toExecution, toExecutionSummary } from '../../boxes/runs/execution-view.ts';
import type { Executions } from '../../boxes/runs/executions.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Endpoints, Input } from '../endpoint.ts';
import type { Env } from '../env.ts';
import { createWholeAnswers } from '../idempotency/whole-answers.ts';
import { boxParams } from './boxes.ts';

const params = boxParams.extend({ execution: z.string().max(64) });
const tag = 'Executions';
const executionTypes = {
  'application/json': executionSchema,
  'text/event-stream': executionEventSchema,
  'application/x-ndjson': executionEventSchema,
};

type Asked = Pick<Input<unknown, unknown, CreateExecution>, 'c' | 'tenant' | 'body'>;

const locationOf = (row: ExecutionRow) => `/v1/boxes/${row.boxId}/executions/${row.id}`;

const placeOf = (location: string): { box: string; id: string } => {
  const [, , , box = '', , id = ''] = location.split('/');
  return { box, id };
};

/** `/v1/boxes/{box}/executions`: run code, read it, stream it, answer it, stop it. */
export const addExecutionRoutes = ({ add }: Endpoints, executions: Executions, stopping: AbortSignal): void => {
  const whole = createWholeAnswers();
  const respond = async (
    c: Context<Env>,
    row: ExecutionRow,
    events: AsyncGenerator<ExecutionEvent>,
    leave: AbortController,
  ) => {
    const format = streamFormat(c);
    const onError = toLog(c, leave);
    if (format) return streamEvents(c, { format, events, leave, stopping, onError });
    const all: ExecutionEvent[] = [];
    for await (const event of events) all.push(event);
    const done = all.at(-1);
    return c.json(toExecution({ row, done: done?.type === 'done' ? done : null, events: all }));
  };

  const accepted = (c: Context<Env>, row: ExecutionRow): Response => {
    c.header('Location', `${locationOf(row)}/events`);
    return c.json(toExecutionSummary({ row, done: row.done }), 202);
  };

  const replay = async ({ c, tenant, body }: Asked, location: string): Promise<Response> => {
    const { box, id } = placeOf(location);
    const { row, done, events } = await executions.read({ tenant, box }, id);
    if (row.status === 'running' && !done && !events) {
      // Noted, but not yet in its box, where it may still be refused.
      const text = 'The first request with this Idempotency-Key is still in progress.';
      throw new CodeBoxError('conflict', text, { reason: 'key_in_use', retryAfterSeconds: 1 });
    }
    if (body.detach) return accepted(c, row);
    const leave = new AbortController();
    return await respond(c, row, executions.events({ tenant, box }, id, 0, leave.signal), leave);
  };

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
        replay,
        cameToNothing: (tenant, location) => {
          const { box, id } = placeOf(location);
          return executions.hasNeverStarted({ tenant, box }, id);
        },
      },
      responses: {
        200: { description: 'The whole execution, or its events by Accept.', types: executionTypes },
        202: { description: 'It runs; its events are at Location.', schema: executionSummarySchema },
      },
    },
    async ({ c, tenant, params, body }) => {
      const leave = new AbortController();
      const progress = c.get('progress');
      const onAccepted = progress && ((row: ExecutionRow) => progress.mayStart(locationOf(row)));
      const { row, events } = await executions.start({ tenant, box: params.box }, body, leave.signal, onAccepted);
      await progress?.hasStarted();
      c.header('Content-Location', locationOf(row));
      if (events) return await respond(c, row, events, leave);
      return accepted(c, row);
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
      const after = resumeAfter(c, query.after);
      const { done } = await executions.find({ tenant, box: params.box }, params.execution);
      // What tells an EventSource to stop reconnecting.
      if (done && done.seq <= after) return c.body(null, 204);
      const leave = new AbortController();
      const events = executions.events({ tenant, box: params.box }, params.execution, after, leave.signal);
      const onError = toLog(c, leave);
      return streamEvents(c, { format: streamFormat(c) ?? 'ndjson', events, leave, stopping, onError });
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

/** A reader that leaves breaks its stream: that is nothing to warn of. */
const toLog = (c: Context<Env>, leave: AbortController) => (error: unknown) =>
  c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err: error }, 'a stream broke');
