import { type CreateRun, type Run, runSchema } from '../boxes/run.ts';
import { type Caller, callerSchema } from '../tenants/caller.ts';
import { createAdmin, createUsage } from './admin.ts';
import { createBoxes, createPorts, createTemplates, createTickets } from './boxes.ts';
import { createContexts } from './contexts.ts';
import { createFiles } from './files.ts';
import { createCommands, createExecutions, createPackages } from './runs.ts';
import { createSessions } from './session.ts';
import { createSockets, createTerminals, type SocketOptions } from './terminals.ts';
import { type CallOptions, type CreateOptions, createTransport, pathOf, type TransportOptions } from './transport.ts';

/** How a client reaches the gateway. */
export type ClientOptions = TransportOptions & SocketOptions;

/** Time for a cold start and for the run, which may take up to an hour of its own. */
const runSeconds = 300;

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
    files: createFiles(transport),
    packages: createPackages(transport),
    ports: createPorts(transport),
    /** One WebSocket for many executions of a box. */
    session: createSessions(openSocket),
    terminals: createTerminals(transport, openSocket),
    tickets,
    usage: createUsage(transport),
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
        deadlineSeconds: runSeconds + (body.timeoutSeconds ?? 60),
        options: callOptions,
      }),
  };
};

export type Client = ReturnType<typeof createClient>;
