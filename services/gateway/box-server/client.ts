import type { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import type { z } from 'zod';
import {
  CodeBoxError,
  type CreateContext,
  contentsSchema,
  contextSchema,
  type Environment,
  type FileOperation,
  fileEntrySchema,
  type PackageQuery,
  type PageQuery,
  packagePageSchema,
  type QuotaMet,
  searchPageSchema,
} from '#contract';
import { type BoxCall, isTraced, startBoxCall } from '../tracing/box-call.ts';
import { checkApi, type Health, healthSchema } from './abilities.ts';
import { readEvents, readSharedEvents } from './events.ts';
import { createSharedJournals, type JournalPath } from './journals/shared-journals.ts';
import {
  type BoxServerFailure,
  failureOf,
  parseResponse,
  readBounded,
  readRefusal,
  readResponse,
  responseDeadlineMs,
  translate,
} from './protocol/response.ts';
import {
  boxTerminalSchema,
  commandSchema,
  commandsSchema,
  contextsSchema,
  executionSchema,
  executionsSchema,
  type SavedVariables,
  savedVariablesSchema,
  statsSchema,
  terminalsSchema,
  variablesSchema,
} from './protocol/schemas.ts';
import type { CodeRequest, CommandRequest, InstallRequest, NotebookRequest } from './run-requests.ts';
import { createRunSocket } from './run-socket.ts';
import { type Endpoint, tokenHeader } from './transport/endpoint.ts';
import { connectToBox } from './transport/socket.ts';
import { createStreamPool, type StreamPool } from './transport/stream-pool.ts';
import { attachTerminal, type ScreenSize } from './transport/terminal-socket.ts';

/** Streams have a heartbeat every 10 s, so longer silence means a broken box. */
const silenceDeadlineMs = 40_000;
/** The deadline for the first byte of an archive: the box examines all files before it sends any. */
const packMs = 60_000;
const maxCalls = 32;
/** More than a box server runs and queues at once, and as many transfers of files. */
const maxStreams = 512;

/** A response whose body has not been read: `body` must be read to its end or destroyed. */
export interface RawResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Readable;
}

/** A pool of connections. */
type Via = Agent | StreamPool;
type RequestOptions = Partial<Omit<Dispatcher.RequestOptions, 'headers'>> & { headers?: Record<string, string> };

interface StreamedResponse extends RawResponse {
  body: Dispatcher.ResponseData['body'];
}

/** Asks for the entry at a path as it is: a link is not followed. */
export interface LookAtFile {
  op: 'stat';
  path: string;
}

/** A small file that is sent within JSON. */
export interface SmallFile {
  path: string;
  base64: string;
}

/**
 * The client of one box server. Every response is hostile input: sizes are bounded and schemas are checked here, and no decision about
 * tenancy, limits or time depends on what a box reports. Throws CodeBoxError: the refusal of the box server, or `unavailable`. Each failed
 * call is reported to `onFailure`, except for `health`, which may be called before the box server is up.
 */
export const createBoxServerClient = (
  endpoint: Endpoint,
  onFailure: (failure: BoxServerFailure) => void = () => {},
  deadlineMs = responseDeadlineMs,
) => {
  const agentOptions: Agent.Options = {
    connect: (_options, done) => {
      connectToBox(endpoint).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, null),
      );
    },
    headersTimeout: deadlineMs,
    bodyTimeout: silenceDeadlineMs,
    keepAliveTimeout: 60_000,
  };
  // Separate pools: streams may stay open for hours, and neither they nor readers may keep short calls or new code from a connection.
  const agent = new Agent({ ...agentOptions, connections: maxCalls });
  const runs = createStreamPool(agentOptions, maxStreams);
  const files = createStreamPool(agentOptions, maxStreams);
  // The shared journals bound the connections of readers, so the pool need not.
  const readers = new Agent({ ...agentOptions, connections: null });
  const runSocket = createRunSocket(endpoint, { deadlineMs, silenceMs: silenceDeadlineMs });

  const failed = (error: unknown, path: string): CodeBoxError => {
    const failure = path === 'health' ? undefined : failureOf(error);
    if (failure) onFailure(failure);
    return translate(error);
  };

  const send = async (
    via: Via,
    path: string,
    options: RequestOptions,
    traced: BoxCall | undefined,
    acceptedStatus?: number,
  ): Promise<StreamedResponse> => {
    try {
      const response = await via.request({
        origin: 'http://localhost',
        path: `/codebox/${path}`,
        method: 'GET',
        ...options,
        headers: { ...options.headers, ...traced?.headers, [tokenHeader]: endpoint.token },
      });
      traced?.responded(response.statusCode, response.headers);
      // Readers of the body get its errors anyway; without a listener, one that is left half read would end the process.
      response.body.on('error', () => {});
      if (response.statusCode >= 400 && response.statusCode !== acceptedStatus)
        throw await readRefusal(response.statusCode, response.body, deadlineMs);
      return { status: response.statusCode, headers: response.headers, body: response.body };
    } catch (error) {
      const failure = failed(error, path);
      traced?.end(failure.code);
      throw failure;
    }
  };

  /** Makes a call whose response the caller reads. */
  const request = async (via: Via, path: string, options: RequestOptions, acceptedStatus?: number) => {
    // `health` is not traced: it is called repeatedly while a box starts.
    const traced = path === 'health' ? undefined : startBoxCall(options.method ?? 'GET', path);
    const response = await send(via, path, options, traced, acceptedStatus);
    traced?.end();
    return response;
  };

  /** Makes a call whose response is a stream of events. */
  const open = async (path: string, options: RequestOptions, via: Via = runs): Promise<AsyncGenerator<unknown>> => {
    const traced = startBoxCall(options.method ?? 'GET', path);
    return readEvents(await send(via, path, options, traced), (error) => failed(error, path), traced);
  };

  /** Runs code over the connection that runs share; undefined when that is not possible. */
  const runShared = async (id: string, body: string, leave: AbortSignal) => {
    const path = `executions/${id}` as const;
    const fail = (error: unknown) => failed(error, path);
    const shared = runSocket.run(id, body, leave);
    if (!shared) return undefined;
    const run = await shared.catch((error: unknown) => Promise.reject(fail(error)));
    return readSharedEvents(run, fail, (after) => journals.events(path, after, leave));
  };

  /** Makes a short call and reads the whole response, within 20 s, however slowly the box sends it. */
  const call = async (
    path: string,
    method: Dispatcher.HttpMethod = 'GET',
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<string> => {
    const deadline = AbortSignal.timeout(deadlineMs);
    // A box is probed just before its first run, which then uses the same connection: to another host each one costs a TLS handshake.
    const response = await request(path === 'health' ? runs : agent, path, {
      method,
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      ...(body !== undefined && asJson(body)),
    });
    return await readBounded(response.body, deadlineMs).catch((error: unknown) => Promise.reject(failed(error, path)));
  };

  const read = async <T>(schema: z.ZodType<T>, path: string, signal?: AbortSignal): Promise<T> =>
    parseResponse(schema, await call(path, 'GET', undefined, signal));

  const keepVariables = async (path: string, method: 'POST' | 'PUT', signal: AbortSignal): Promise<SavedVariables> => {
    const { body } = await request(agent, path, { method, headersTimeout: 0, signal });
    return await readResponse(savedVariablesSchema, body);
  };

  const journals = createSharedJournals((journal, after, signal) =>
    open(`${journal}/events?after=${after}`, { signal }, readers),
  );

  return {
    agent,

    /** Resolves when the box server is ready. Throws `unavailable` until then and for another instance, and OtherApi. */
    health: async (signal: AbortSignal): Promise<Health> => {
      const { instance, api, ...offered } = await read(healthSchema, 'health', signal);
      if (instance !== endpoint.instance)
        throw new CodeBoxError('unavailable', 'The box does not respond.', { cause: `its server is of ${instance}` });
      checkApi({ api });
      return { api, ...offered };
    },

    /**
     * Starts and checks a kernel of each language, with its usual libraries loaded, without a trace that its owner could see. Idempotent.
     * The caller sets the deadline: it may take some seconds.
     */
    warm: async (languages: readonly string[], signal: AbortSignal): Promise<void> => {
      const options = { method: 'POST', ...asJson({ languages }), headersTimeout: 0, signal } as const;
      await readBounded((await request(runs, 'warm', options)).body);
    },

    /**
     * Sets the environment of everything in the box, running kernels included, and the name of its network, and writes small files. Call it
     * after the driver has bound another network. Idempotent. Throws `conflict` while a kernel is busy, and `invalid_request` for a file
     * that cannot be written.
     */
    bind: (binding: { env: Environment; network?: string; files?: readonly SmallFile[] }) =>
      call('bind', 'POST', binding),

    /** Tells a box in use that it has another network; kernels keep their variables. */
    connect: async (network: string): Promise<void> => void (await call('network', 'PUT', { network })),

    /**
     * Stops everything that runs in the box, with the cause `cpu_limit` and this explanation: runs, including queued ones, commands,
     * terminals and processes that they have left. Files stay, and so do kernels unless one has to be replaced. Idempotent.
     */
    stop: (cause: { detail: string; quota?: QuotaMet }, signal: AbortSignal) => call('stop', 'POST', cause, signal),

    /** Makes the box stop recording and sending events of runs. What could be read before can still be read. Idempotent. */
    seal: () => call('seal', 'POST'),

    /** Reads the statistics that only the box has. */
    stats: (signal: AbortSignal) => read(statsSchema, 'stats', signal),

    /** Lists the packages and programs that came with its image. */
    contents: (signal: AbortSignal) => read(contentsSchema, 'contents', signal),

    contexts: async () => (await read(contextsSchema, 'contexts')).items,
    createContext: async (body: CreateContext) => parseResponse(contextSchema, await call('contexts', 'POST', body)),
    restartContext: async (id: string) => parseResponse(contextSchema, await call(`contexts/${id}/restart`, 'POST')),

    /** Reads a page of the variables of a context. Throws `conflict` while code runs in it. */
    variables: (id: string, { limit, cursor = '' }: PageQuery) =>
      read(variablesSchema, `contexts/${id}/variables?${new URLSearchParams({ limit: String(limit), cursor })}`),

    /**
     * Runs code and streams its events to `done`. Leaving the stream does not stop the run. `mayShare`: whether the box server lets runs share
     * a connection. A traced run has a request of its own, as its headers carry the trace.
     */
    execute: async (id: string, body: CodeRequest, leave: AbortSignal, mayShare = false) => {
      const request = asJson(body);
      return (
        (mayShare && !isTraced() && (await runShared(id, request.body, leave))) ||
        (await open(`executions/${id}`, { method: 'PUT', ...request, signal: leave }))
      );
    },

    /** Runs a command in the same way. */
    command: async (id: string, body: CommandRequest, leave?: AbortSignal) =>
      open(`commands/${id}`, { method: 'PUT', ...asJson(body), ...(leave && { signal: leave }) }),

    /** Installs packages, as a command with this id. */
    install: async (id: string, body: InstallRequest, leave?: AbortSignal) =>
      open(`packages/${id}`, { method: 'PUT', ...asJson(body), ...(leave && { signal: leave }) }),

    /** Runs a notebook, as a command with this id. */
    runNotebook: async (id: string, body: NotebookRequest, leave?: AbortSignal) =>
      open(`notebooks/${id}`, { method: 'PUT', ...asJson(body), ...(leave && { signal: leave }) }),

    /** Reads the executions of a context as a notebook; the caller reads the body. */
    notebook: (query: URLSearchParams) => request(files, `notebook?${query}`, { headersTimeout: packMs }),

    packages: ({ manager, limit, cursor }: PackageQuery) => {
      const query = new URLSearchParams({ manager, limit: String(limit), ...(cursor !== undefined && { cursor }) });
      return read(packagePageSchema, `packages?${query}`);
    },

    /** Streams the events after `after`, then live events, to `done`. */
    events: journals.events,

    /** Makes the box refuse an execution that it has not received yet. Throws `conflict` when it may have run. */
    refuseExecution: (id: string) => call(`executions/${id}`, 'DELETE'),
    readExecution: (id: string) => read(executionSchema, `executions/${id}`),
    /** Lists running and queued executions, the oldest first. */
    unfinishedExecutions: async (signal: AbortSignal) => (await read(executionsSchema, 'executions', signal)).items,
    /** Lists the latest executions of a Jupyter client, the oldest first: unfinished ones, and those that ended within the hour. */
    sessionExecutions: async (session: string) =>
      (await read(executionsSchema, `executions?${new URLSearchParams({ session })}`)).items,
    readCommand: (id: string) => read(commandSchema, `commands/${id}`),
    /** Lists running commands and those that the box still remembers. */
    commands: async (signal?: AbortSignal) => (await read(commandsSchema, 'commands', signal)).items,
    killCommand: (id: string) => call(`commands/${id}`, 'DELETE'),
    interrupt: (id: string) => call(`executions/${id}/interrupt`, 'POST'),
    input: (journal: JournalPath, body: unknown) => call(`${journal}/input`, 'POST', body),

    /** Makes one request for files; the caller reads the body, including that of a 416. `path` is percent-encoded. */
    file: (
      method: Dispatcher.HttpMethod,
      path: string,
      headers: Record<string, string>,
      body?: Readable,
      signal?: AbortSignal,
    ) =>
      request(
        files,
        `files/${path}`,
        {
          method,
          headers,
          // An upload may pause, so the caller sets its deadline. Before an archive the box examines the whole folder.
          headersTimeout: body ? 0 : /[?&]as=/.test(path) ? packMs : deadlineMs,
          ...(body && { body }),
          ...(signal && { signal }),
        },
        416,
      ),

    /** Searches files by name or content; the box ends a search within 16 s. */
    search: (search: string, leave: AbortSignal) => read(searchPageSchema, `files:search${search}`, leave),

    /** Streams changes of files until the caller leaves; `changes` streams those so far, then ends. */
    watch: async (search: string, leave: AbortSignal) => open(`files:watch${search}`, { signal: leave }, files),
    changes: async (search: string, signal: AbortSignal) =>
      open(`files:watch${search}&follow=false`, { signal }, files),

    /** Performs one file operation; `isNew` is true when an entry was created. The caller sets the deadline. */
    operateOnFiles: async (operation: FileOperation | LookAtFile, signal: AbortSignal) => {
      const options = { method: 'POST', ...asJson(operation), headersTimeout: 0, signal } as const;
      const response = await request(files, 'files', options);
      return { entry: await readResponse(fileEntrySchema, response.body), isNew: response.status === 201 };
    },

    /** Streams the whole volume, in a format for `restore`. A truncated stream is an error of the body. */
    checkpoint: (signal: AbortSignal) => send(files, 'checkpoint', { signal, headersTimeout: packMs }, undefined),

    /** Replaces the volume and the bound environment by such a stream. The caller sets the deadline. */
    restore: async (content: Readable, signal: AbortSignal) => {
      const options = { method: 'PUT', body: content, headersTimeout: 0, signal } as const;
      const response = await send(files, 'checkpoint', options, undefined);
      await readBounded(response.body);
    },

    /**
     * Saves the variables of the default Python context beside the files, until `dropVariables`; until then it throws `conflict` for other
     * builds. In a box that was restored from them, `adoptVariables` has that context begin with those that can be loaded. The box ends both
     * within two minutes; the caller sets the deadline.
     */
    saveVariables: (build: string, signal: AbortSignal) =>
      keepVariables(`variables?for=${encodeURIComponent(build)}`, 'POST', signal),
    adoptVariables: (signal: AbortSignal) => keepVariables('variables', 'PUT', signal),
    /** Does nothing for a build that has saved none. Variables that are still being saved are removed afterwards. */
    dropVariables: async (build: string) => void (await call(`variables?for=${encodeURIComponent(build)}`, 'DELETE')),

    terminals: async () => (await read(terminalsSchema, 'terminals')).items,
    startTerminal: async (id: string, body: ScreenSize & { cwd?: string; env?: Environment }) =>
      parseResponse(boxTerminalSchema, await call(`terminals/${id}`, 'PUT', body)),
    /** Resizes a terminal, or writes to it. Throws `too_many_requests` for input that nothing reads. */
    changeTerminal: (id: string, change: ScreenSize | { base64: string }) => call(`terminals/${id}`, 'PATCH', change),
    endTerminal: (id: string) => call(`terminals/${id}`, 'DELETE'),
    attachTerminal: (id: string, size?: ScreenSize) => attachTerminal(endpoint, id, size),

    close: async () => {
      runSocket.close();
      await Promise.all([agent.destroy(), runs.destroy(), files.destroy(), readers.destroy()]);
    },
  };
};

export type BoxServerClient = ReturnType<typeof createBoxServerClient>;

const asJson = (body: unknown) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
