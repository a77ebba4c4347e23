import { type CreateRun, type Run, type RunEvent, runEventSchema, runSchema } from '../boxes/run.ts';
import { CodeBoxError } from '../problems/errors.ts';
import { type Caller, callerSchema } from '../tenants/caller.ts';
import { createAdmin, createUsage } from './admin.ts';
import { createBoxes, createLinks, createPorts, createTickets } from './boxes.ts';
import { createContexts } from './contexts.ts';
import { readLines } from './events.ts';
import { createExports } from './exports.ts';
import { createFiles } from './files.ts';
import { createCommands, createExecutions, createNotebooks, createPackages } from './runs.ts';
import { createSessions } from './session.ts';
import { createTemplates } from './templates.ts';
import { createSockets, createTerminals, type SocketOptions } from './terminals.ts';
import {
  type CallOptions,
  type CreateOptions,
  createTransport,
  parse,
  pathOf,
  type TransportOptions,
} from './transport.ts';
import { createVolumes } from './volumes.ts';
import { createWebhooks } from './webhooks.ts';

/** How a client reaches the gateway. */
export type ClientOptions = TransportOptions & SocketOptions;

/** Time for a cold start and for the run, which may take up to an hour of its own. */
const runSeconds = 300;

const timeOf = ({ steps, timeoutSeconds = 60 }: CreateRun): number =>
  steps?.reduce((sum, step) => sum + (step.timeoutSeconds ?? 60), 0) ?? timeoutSeconds;

/**
 * The public API, typed: every response is checked against the contract, lists are async iterables over their pages,
 * and event streams are resumed when they are cut. It needs `fetch`, a `WebSocket` for terminals and sessions, and
 * nothing of Node, so it works in browsers too. Refusals reject with a `CodeBoxError` (code, status, errors, requestId,
 * retryAfterSeconds).
 */
export const createClient = (options: ClientOptions) => {
  const transport = createTransport(options);
  const tickets = createTickets(transport);
  const openSocket = createSockets(transport, async (box) => (await tickets.create(box)).ticket, options);
  return {
    boxes: createBoxes(transport),
    templates: createTemplates(transport),
    executions: createExecutions(transport),
    contexts: createContexts(transport),
    commands: createCommands(transport),
    exports: createExports(transport),
    files: createFiles(transport),
    links: createLinks(transport),
    notebooks: createNotebooks(transport),
    packages: createPackages(transport),
    ports: createPorts(transport),
    /** One WebSocket for many executions of a box. */
    session: createSessions(openSocket),
    terminals: createTerminals(transport, openSocket),
    tickets,
    usage: createUsage(transport),
    volumes: createVolumes(transport),
    webhooks: createWebhooks(transport),
    /** The tenant and the scopes of the client's key. */
    caller: (callOptions?: CallOptions): Promise<Caller> =>
      transport.json(callerSchema, { path: pathOf('caller'), options: callOptions }),
    admin: createAdmin(transport),

    /** Runs something once in a fresh box that is deleted afterwards. */
    run: (body: CreateRun, callOptions?: CreateOptions): Promise<Run> =>
      transport.json(runSchema, {
        method: 'POST',
        path: pathOf('run'),
        json: body,
        creates: true,
        deadlineSeconds: runSeconds + timeOf(body),
        options: callOptions,
      }),

    /**
     * Runs something once in a fresh box and streams its events, up to `end`. Leaving the loop ends the run and its box.
     * A stream that is cut cannot be resumed, and rejects with `unavailable`.
     */
    async *streamRun(body: CreateRun, callOptions: CallOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
      const response = await transport.open({
        method: 'POST',
        path: pathOf('run'),
        json: body,
        headers: { accept: 'application/x-ndjson' },
        deadlineSeconds: runSeconds,
        options: callOptions,
      });
      if (response.body === null) throw new CodeBoxError('internal', 'The gateway sent no events.');
      for await (const line of readLines(response.body, callOptions.signal)) {
        if (line === '') continue;
        const event = parse(runEventSchema, line);
        yield event;
        if (event.type === 'end') return;
      }
      throw new CodeBoxError('unavailable', 'The stream was interrupted.');
    },
  };
};

export type Client = ReturnType<typeof createClient>;
