import { z } from 'zod';
import {
  afterQuerySchema,
  type CommandEvent,
  commandEventSchema,
  commandInputSchema,
  commandPageSchema,
  commandSchema,
  commandSummarySchema,
  createCommandSchema,
} from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import { type CommandStart, type Commands, toCommand } from '../../../boxes/runs/commands.ts';
import type { Endpoints, Input } from '../../endpoint.ts';
import { boxParams } from '../boxes/boxes.ts';
import { addInputRoute } from './input.ts';
import { createRunResponses, detachedHeaders, startedHeaders } from './run-responses.ts';

const params = boxParams.extend({ command: z.string().max(64) });
const tag = 'Commands';

/** The bodies of the response to the start of a command, by Accept. */
const commandTypes = {
  'application/json': commandSchema,
  'text/event-stream': commandEventSchema,
  'application/x-ndjson': commandEventSchema,
};

export const createCommandResponses = (commands: Commands, stopping: AbortSignal) =>
  createRunResponses<CommandEvent, CommandStart>(
    {
      name: 'command',
      find: ({ ref, id }) => commands.read(ref, id),
      expectReader: (ref) => commands.expectReader(ref),
      events: ({ ref, id }, after, leave) => commands.events(ref, id, after, leave),
      summary: (_, found) => found,
      whole: ({ ref, id }, known, events) => toCommand(id, ref.box, known, events),
    },
    stopping,
  );

export type CommandResponses = ReturnType<typeof createCommandResponses>;

/** What the routes that start a command share: `whole` and `detached` describe their responses. */
export const startsCommand = (runs: CommandResponses, { whole, detached }: { whole: string; detached: string }) => ({
  idempotent: {
    replay: (
      { c, tenant, params: { box }, body }: Input<{ box: string }, unknown, { detach?: boolean | undefined }>,
      { id }: { id: string },
    ) => runs.replay(c, { ref: { tenant, box }, id }, body.detach),
    storesResponse: true as const,
  },
  responses: {
    200: { description: whole, headers: startedHeaders, types: commandTypes },
    202: { description: detached, headers: detachedHeaders, schema: commandSummarySchema },
  },
});

/** `/v1/boxes/{box}/commands`: processes outside of kernels. */
export const addCommandRoutes = (endpoints: Endpoints, commands: Commands, runs: CommandResponses): void => {
  const { add } = endpoints;
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
      ...startsCommand(runs, {
        whole: 'The command after its end, or its events, by Accept.',
        detached: 'The command runs; its events are at Location.',
      }),
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return runs.start(c, ref, async (leave, onAccepted) => {
        const started = await commands.start(ref, body, leave, onAccepted);
        return started.events ? { ...started, known: body } : started;
      });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands',
      scope: 'boxes:read',
      summary: 'List running commands, and ended ones that the box still remembers',
      tag,
      params: boxParams,
      responses: { 200: { description: 'The commands of the box.', schema: commandPageSchema } },
    },
    async ({ c, tenant, params }) =>
      c.json({ items: await commands.list({ tenant, box: params.box }), nextCursor: null }),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands/{command}',
      scope: 'boxes:read',
      summary: 'Read a command with its output so far',
      tag,
      params,
      responses: { 200: { description: 'The command.', schema: commandSchema } },
    },
    ({ c, tenant, params: { box, command } }) =>
      runs.sendLarge(c, box, async () => c.json(await commands.readWhole({ tenant, box }, command))),
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/commands/{command}/events',
      scope: 'boxes:read',
      summary: 'Stream the events of a command from any point, then live until done',
      tag,
      params,
      query: afterQuerySchema,
      responses: {
        200: {
          description: 'The events, as NDJSON unless Accept selects SSE.',
          types: { 'application/x-ndjson': commandEventSchema, 'text/event-stream': commandEventSchema },
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      const ref = { tenant, box: params.box };
      // Before the stream starts, so that a command that the box has forgotten is a 404.
      await commands.read(ref, params.command);
      return runs.events(c, { ref, id: params.command }, query.after);
    },
  );

  addInputRoute(endpoints, {
    path: '/v1/boxes/{box}/commands/{command}/input',
    summary: 'Write to the stdin of a command, or close it',
    tag,
    params,
    body: commandInputSchema,
    write: ({ tenant, params: { box, command }, body }) => commands.input({ tenant, box }, command, body),
  });

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/commands/{command}',
      scope: 'run',
      summary: 'End a command: SIGTERM, then SIGKILL after 2 s',
      tag,
      params,
      responses: { 202: { description: 'The command is being ended; its `done` event has the result.' } },
    },
    async ({ c, tenant, params }) => {
      await commands.kill({ tenant, box: params.box }, params.command);
      return c.body(null, 202);
    },
  );
};
