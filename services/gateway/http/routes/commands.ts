import { z } from 'zod';
import {
  afterQuerySchema,
  commandEventSchema,
  commandInputSchema,
  commandPageSchema,
  commandSchema,
  commandSummarySchema,
  createCommandSchema,
} from '#contract';
import { resumeAfter, streamEvents, streamFormat } from '../../../http/stream.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Commands } from '../../boxes/runs/commands.ts';
import type { Endpoints } from '../endpoint.ts';
import { createWholeAnswers } from '../idempotency/whole-answers.ts';
import { boxParams } from './boxes.ts';
import { type CommandAnswers, commandTypes, toLog } from './command-answers.ts';

const params = boxParams.extend({ command: z.string().max(64) });
const tag = 'Commands';

/** `/v1/boxes/{box}/commands`: processes beside the kernels. */
export const addCommandRoutes = (
  { add }: Endpoints,
  commands: Commands,
  answers: CommandAnswers,
  stopping: AbortSignal,
): void => {
  const whole = createWholeAnswers();
  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/commands',
      scope: 'run',
      summary: 'Run a shell command or a program; wait, stream or detach',
      tag,
      params: boxParams,
      body: createCommandSchema,
      bounds: largeJson,
      idempotent: {
        replay: ({ c, tenant, body }, location) => answers.replay({ c, tenant }, body.detach, location),
        keepsAnswer: true,
      },
      responses: {
        200: { description: 'The whole command, or its events by Accept.', types: commandTypes },
        202: { description: 'It runs; its events are at Location.', schema: commandSummarySchema },
      },
    },
    ({ c, tenant, params, body }) =>
      answers.start({ c, tenant, box: params.box }, async (leave, onAccepted) => ({
        ...(await commands.start({ tenant, box: params.box }, body, leave, onAccepted)),
        ask: body,
      })),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands',
      scope: 'boxes:read',
      summary: 'List commands, running ones and those the box still remembers',
      tag,
      params: boxParams,
      responses: { 200: { description: 'All of them.', schema: commandPageSchema } },
    },
    async ({ c, tenant, params }) =>
      c.json({ items: await commands.list({ tenant, box: params.box }), nextCursor: null }),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands/{command}',
      scope: 'boxes:read',
      summary: 'Read a command with its output until now',
      tag,
      params,
      responses: { 200: { description: 'The command.', schema: commandSchema } },
    },
    ({ c, tenant, params: { box, command } }) =>
      whole(c, box, async () => c.json(await commands.readWhole({ tenant, box }, command))),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands/{command}/events',
      scope: 'boxes:read',
      summary: 'Stream its events again from any point; goes on live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description: 'Its events; NDJSON unless Accept asks for SSE.',
          types: { 'application/x-ndjson': commandEventSchema, 'text/event-stream': commandEventSchema },
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      await commands.read({ tenant, box: params.box }, params.command);
      const leave = new AbortController();
      const events = commands.events(
        { tenant, box: params.box },
        params.command,
        resumeAfter(c, query.after),
        leave.signal,
      );
      const onError = toLog(c, leave);
      return streamEvents(c, { format: streamFormat(c) ?? 'ndjson', events, leave, stopping, onError });
    },
  );

  add(
    {
      method: 'post',
      path: '/v1/boxes/{box}/commands/{command}/input',
      scope: 'run',
      summary: 'Write to its stdin, or close it',
      tag,
      params,
      body: commandInputSchema,
      bounds: largeJson,
      responses: { 204: { description: 'Written.' } },
    },
    async ({ c, tenant, params, body }) => {
      await commands.input({ tenant, box: params.box }, params.command, body);
      return c.body(null, 204);
    },
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/commands/{command}',
      scope: 'run',
      summary: 'End it: SIGTERM, then SIGKILL after 2 s',
      tag,
      params,
      responses: { 202: { description: 'It is being ended; done tells how that went.' } },
    },
    async ({ c, tenant, params }) => {
      await commands.kill({ tenant, box: params.box }, params.command);
      return c.body(null, 202);
    },
  );
};
