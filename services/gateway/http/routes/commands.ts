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
import { largeJson } from '../../../json/json-bounds.ts';
import { type CommandStart, type Commands, toCommand } from '../../boxes/runs/commands.ts';
import type { Endpoints } from '../endpoint.ts';
import { createWholeAnswers } from '../idempotency/whole-answers.ts';
import { boxParams } from './boxes.ts';
import { createRunAnswers } from './run-answers.ts';

const params = boxParams.extend({ command: z.string().max(64) });
const tag = 'Commands';

/** The bodies that the start of a command may have, by Accept. */
export const commandTypes = {
  'application/json': commandSchema,
  'text/event-stream': commandEventSchema,
  'application/x-ndjson': commandEventSchema,
};

export const createCommandAnswers = (commands: Commands, stopping: AbortSignal) =>
  createRunAnswers<CommandEvent, CommandStart>(
    {
      name: 'commands',
      find: ({ ref, id }) => commands.read(ref, id),
      events: ({ ref, id }, after, leave) => commands.events(ref, id, after, leave),
      summary: (_, found) => found,
      whole: ({ ref, id }, asked, events) => toCommand(id, ref.box, asked, events),
    },
    stopping,
  );

export type CommandAnswers = ReturnType<typeof createCommandAnswers>;

/** `/v1/boxes/{box}/commands`: processes beside the kernels. */
export const addCommandRoutes = ({ add }: Endpoints, commands: Commands, answers: CommandAnswers): void => {
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
        replay: ({ c, tenant, body }, location) => answers.replay(c, answers.placeOf(tenant, location), body.detach),
        keepsAnswer: true,
      },
      responses: {
        200: { description: 'The whole command, or its events by Accept.', types: commandTypes },
        202: { description: 'It runs; its events are at Location.', schema: commandSummarySchema },
      },
    },
    ({ c, tenant, params, body }) => {
      const ref = { tenant, box: params.box };
      return answers.start(c, ref, async (leave, onAccepted) => {
        const begun = await commands.start(ref, body, leave, onAccepted);
        return begun.events ? { ...begun, asked: body } : begun;
      });
    },
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
      const ref = { tenant, box: params.box };
      // Before the stream begins: what the box does not know any more is a 404.
      await commands.read(ref, params.command);
      return answers.events(c, { ref, id: params.command }, query.after);
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
