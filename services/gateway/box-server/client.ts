import type { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { z } from 'zod';
import {
  CodeBoxError,
  type CreateContext,
  commandDoneSchema,
  contextIdSchema,
  contextSchema,
  type Environment,
  executionDoneSchema,
  type FileOperation,
  fileEntrySchema,
  languageNameSchema,
  type PackageManager,
  type PackageQuery,
  type PageQuery,
  packagePageSchema,
  type QuotaMet,
  searchPageSchema,
  terminalSchema,
  variableSchema,
  volumeSchema,
} from '#contract';
import { type BoxCall, startBoxCall } from '../tracing/box-call.ts';
import { checkApi, type Health, healthSchema } from './abilities.ts';
import {
  answerDeadlineMs,
  type BoxServerFailure,
  failureOf,
  parseAnswer,
  readAnswer,
  readBounded,
  readRefusal,
  translate,
} from './answer.ts';
import { type Endpoint, tokenHeader } from './endpoint.ts';
import { readLines } from './lines.ts';
import { createSharedJournals, type JournalPath } from './shared-journals.ts';
import { connectToBox } from './socket.ts';
import { attachTerminal, type ScreenSize } from './terminal-socket.ts';

/** The body of a stream has a heartbeat every 10 s, so silence means a broken box. */
const silenceDeadlineMs = 40_000;
/** Before the first byte of its files a box looks at each of them. */
const packMs = 60_000;
const maxCalls = 32;
const maxStreams = 512;
/** How much is read of a body that nobody wants any more, before its connection is cut. */
const leftoverBytes = 1024;

export interface CodeRequest {
  code: string;
  language?: string;
  context?: string;
  timeoutMs: number;
  cpuLimitMs?: number;
  env?: Environment;
  autoInstall?: boolean;
}

export interface CommandRequest {
  command?: string;
  argv?: string[];
  cwd?: string;
  env?: Environment;
  timeoutMs?: number;
  cpuLimitMs?: number;
  stdin?: string;
  openStdin: boolean;
}

export interface InstallRequest {
  manager: PackageManager;
  packages: string[];
  timeoutMs: number;
  cpuLimitMs?: number;
}

const variablesSchema = z.object({
  items: z.array(variableSchema).max(1000),
  nextCursor: z.string().max(1024).nullable(),
});
const contextsSchema = z.object({ items: z.array(contextSchema).max(1000) });
const executionSchema = z.object({
  id: z.string(),
  context: contextIdSchema.nullable(),
  language: languageNameSchema.nullable(),
  state: z.enum(['queued', 'running', 'done']),
  lastSeq: z.int(),
  executionCount: z.int().nullable(),
  queuedMs: z.number().nullable(),
  done: executionDoneSchema.nullable(),
});
const executionsSchema = z.object({ items: z.array(executionSchema).max(10_000) });
const commandSchema = z.object({
  id: z.string(),
  command: z.string().nullish(),
  argv: z.array(z.string()).nullish(),
  cwd: z.string(),
  pid: z.int().nullable(),
  state: z.enum(['queued', 'running', 'done']),
  lastSeq: z.int(),
  done: commandDoneSchema.nullable(),
});
const commandsSchema = z.object({ items: z.array(commandSchema).max(10_000) });
const boxTerminalSchema = terminalSchema.omit({ box: true });
const terminalsSchema = z.object({ items: z.array(boxTerminalSchema).max(100) });
const statsSchema = z.object({ disk: volumeSchema.nullable() });

export type BoxTerminal = z.infer<typeof boxTerminalSchema>;
export type BoxCommand = z.infer<typeof commandSchema>;
export type BoxExecution = z.infer<typeof executionSchema>;

/** An answer whose body is still to be read: `body` must be read to its end or destroyed. */
export interface RawAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Readable;
}

type RequestOptions = Partial<Omit<Dispatcher.RequestOptions, 'headers'>> & { headers?: Record<string, string> };

interface StreamedAnswer extends RawAnswer {
  body: Dispatcher.ResponseData['body'];
}

/** Content that goes along in JSON. */
export interface SmallFile {
  path: string;
  base64: string;
}

/**
 * The client of one box server. Everything it answers is hostile input: sizes are capped and shapes are checked here, and
 * nothing a box says decides about tenancy, limits or time. Throws CodeBoxError: what the box server refused, or `unavailable`.
 * `onFailure` is told of each call that was not answered as it should be; one for `health` may be early.
 */
export const createBoxServerClient = (
  endpoint: Endpoint,
  onFailure: (failure: BoxServerFailure) => void = () => {},
  answerMs = answerDeadlineMs,
) => {
  const agentOptions: Agent.Options = {
    connect: (_options, done) => {
      connectToBox(endpoint).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, null),
      );
    },
    headersTimeout: answerMs,
    bodyTimeout: silenceDeadlineMs,
    keepAliveTimeout: 60_000,
  };
  // Apart from each other: streams may stay for hours, and must not keep a short call waiting for a connection.
  const agent = new Agent({ ...agentOptions, connections: maxCalls });
  const streams = new Agent({ ...agentOptions, connections: maxStreams });
  // Bounded by who shares them, so that nobody waits for one; and apart, so that no reader keeps code from being started.
  const readers = new Agent({ ...agentOptions, connections: null });

  const failed = (error: unknown, path: string): CodeBoxError => {
    const failure = path === 'health' ? undefined : failureOf(error);
    if (failure) onFailure(failure);
    return translate(error);
  };

  const send = async (
    via: Agent,
    path: string,
    options: RequestOptions,
    traced: BoxCall | undefined,
    passes?: number,
  ): Promise<StreamedAnswer> => {
    try {
      const answer = await via.request({
        origin: 'http://localhost',
        path: `/codebox/${path}`,
        method: 'GET',
        ...options,
        headers: { ...options.headers, ...traced?.headers, [tokenHeader]: endpoint.token },
      });
      traced?.answered(answer.statusCode, answer.headers);
      // Whoever reads the body learns of its errors; one that is left half read must not end the process.
      answer.body.on('error', () => {});
      if (answer.statusCode >= 400 && answer.statusCode !== passes)
        throw await readRefusal(answer.statusCode, answer.body, answerMs);
      return { status: answer.statusCode, headers: answer.headers, body: answer.body };
    } catch (error) {
      const failure = failed(error, path);
      traced?.end(failure.code);
      throw failure;
    }
  };

  /** A call whose answer the caller reads. */
  const ask = async (via: Agent, path: string, options: RequestOptions, passes?: number): Promise<StreamedAnswer> => {
    // A box that starts is asked for its health again and again.
    const traced = path === 'health' ? undefined : startBoxCall(options.method ?? 'GET', path);
    const answer = await send(via, path, options, traced, passes);
    traced?.end();
    return answer;
  };

  /** A call that is answered with events. */
  const open = async (path: string, options: RequestOptions, via = streams): Promise<AsyncGenerator<unknown>> => {
    const traced = startBoxCall(options.method ?? 'GET', path);
    return readEvents(await send(via, path, options, traced), (error) => failed(error, path), traced);
  };

  /** A short call, its answer read whole: over within 20 s, however slowly the box drips. */
  const call = async (
    path: string,
    method: Dispatcher.HttpMethod = 'GET',
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<string> => {
    const deadline = AbortSignal.timeout(answerMs);
    const answer = await ask(agent, path, {
      method,
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      ...(body !== undefined && asJson(body)),
    });
    return await readBounded(answer.body, answerMs).catch((error: unknown) => Promise.reject(failed(error, path)));
  };

  const read = async <T>(schema: z.ZodType<T>, path: string, signal?: AbortSignal): Promise<T> =>
    parseAnswer(schema, await call(path, 'GET', undefined, signal));

  const journals = createSharedJournals((journal, after, signal) =>
    open(`${journal}/events?after=${after}`, { signal }, readers),
  );

  return {
    agent,

    /** Resolves once the box server can serve; throws `unavailable` until then and when it is not that of this instance, OtherApi. */
    health: async (signal: AbortSignal): Promise<Health> => {
      const { instance, api, abilities } = await read(healthSchema, 'health', signal);
      if (instance !== endpoint.instance)
        throw new CodeBoxError('unavailable', 'The box does not answer.', { cause: `it says that it is ${instance}` });
      checkApi({ api });
      return { api, abilities };
    },

    /**
     * Has a kernel of each language that has proved that it works, with its usual libraries loaded; its owner sees no trace of
     * that. Idempotent. The caller has the deadline: it may take some seconds.
     */
    warm: async (languages: readonly string[], signal: AbortSignal): Promise<void> => {
      await readBounded(
        (await ask(streams, 'warm', { method: 'POST', ...asJson({ languages }), headersTimeout: 0, signal })).body,
      );
    },

    /**
     * Sets the environment of everything that runs in the box, kernels that live already included, and what network it has, and
     * writes small files. To be called after the driver has bound another network. Idempotent; `conflict` when a kernel is busy,
     * `invalid_request` for a file that cannot be.
     */
    bind: (own: { env: Environment; network?: string; files?: readonly SmallFile[] }) => call('bind', 'POST', own),

    /**
     * Ends all that runs in the box, with the cause `cpu_limit` and what is told of it: runs, those that wait too, commands, terminals
     * and what they have left running. Files stay; kernels too, unless that takes a new one. Idempotent.
     */
    stop: (told: { detail: string; quota: QuotaMet }, signal: AbortSignal) => call('stop', 'POST', told, signal),

    /** What only the box can tell of its use. */
    stats: (signal: AbortSignal) => read(statsSchema, 'stats', signal),

    contexts: async () => (await read(contextsSchema, 'contexts')).items,
    createContext: async (body: CreateContext) => parseAnswer(contextSchema, await call('contexts', 'POST', body)),
    restartContext: async (id: string) => parseAnswer(contextSchema, await call(`contexts/${id}/restart`, 'POST')),

    /** A page of the variables of a context; `conflict` while something runs there. */
    variables: (id: string, { limit, cursor = '' }: PageQuery) =>
      read(variablesSchema, `contexts/${id}/variables?${new URLSearchParams({ limit: String(limit), cursor })}`),

    /** Runs code; the events come until `done`. Leaving the stream does not stop the run. */
    execute: async (id: string, body: CodeRequest, leave: AbortSignal) =>
      open(`executions/${id}`, { method: 'PUT', ...asJson(body), signal: leave }),

    /** Runs a command, in the same way. */
    command: async (id: string, body: CommandRequest, leave?: AbortSignal) =>
      open(`commands/${id}`, { method: 'PUT', ...asJson(body), ...(leave && { signal: leave }) }),

    /** Installs packages as a command of that id. */
    install: async (id: string, body: InstallRequest, leave?: AbortSignal) =>
      open(`packages/${id}`, { method: 'PUT', ...asJson(body), ...(leave && { signal: leave }) }),

    packages: ({ manager, limit, cursor }: PackageQuery) => {
      const query = new URLSearchParams({ manager, limit: String(limit), ...(cursor !== undefined && { cursor }) });
      return read(packagePageSchema, `packages?${query}`);
    },

    /** The events after `after`, then what follows, to `done`. */
    events: journals.events,

    /** Has an execution that has not come to the box never run, whenever it comes; `conflict` when it may have run. */
    refuseExecution: (id: string) => call(`executions/${id}`, 'DELETE'),
    readExecution: (id: string) => read(executionSchema, `executions/${id}`),
    /** What runs and what waits, the oldest first. */
    unfinishedExecutions: async (signal: AbortSignal) => (await read(executionsSchema, 'executions', signal)).items,
    readCommand: (id: string) => read(commandSchema, `commands/${id}`),
    /** Those that run and those that the box still remembers. */
    commands: async (signal?: AbortSignal) => (await read(commandsSchema, 'commands', signal)).items,
    killCommand: (id: string) => call(`commands/${id}`, 'DELETE'),
    interrupt: (id: string) => call(`executions/${id}/interrupt`, 'POST'),
    input: (journal: JournalPath, body: unknown) => call(`${journal}/input`, 'POST', body),

    /** One call of the file interface; the caller reads the body, also that of a 416. `path` is percent-encoded. */
    file: (
      method: Dispatcher.HttpMethod,
      path: string,
      headers: Record<string, string>,
      body?: Readable,
      signal?: AbortSignal,
    ) =>
      ask(
        streams,
        `files/${path}`,
        {
          method,
          headers,
          // A body that pauses is the caller's business, which has its own deadline; a large folder is counted first.
          headersTimeout: body ? 0 : /[?&]as=/.test(path) ? packMs : answerMs,
          ...(body && { body }),
          ...(signal && { signal }),
        },
        416,
      ),

    /** What is found by name or content; the box ends a search by itself within 16 s. */
    search: async (search: string, leave: AbortSignal) =>
      parseAnswer(searchPageSchema, await call(`files:search${search}`, 'GET', undefined, leave)),

    /** The changes of files, as long as somebody reads. */
    watch: async (search: string, leave: AbortSignal) => open(`files:watch${search}`, { signal: leave }),

    /** Makes, moves, copies, extracts or fetches; `isNew` tells whether something was made. The caller has the deadline. */
    operateOnFiles: async (operation: FileOperation, signal: AbortSignal) => {
      const answer = await ask(streams, 'files', { method: 'POST', ...asJson(operation), headersTimeout: 0, signal });
      return { entry: await readAnswer(fileEntrySchema, answer.body), isNew: answer.status === 201 };
    },

    /** The whole volume as a stream that only `restore` understands. A cut one is an error of the body. */
    checkpoint: (signal: AbortSignal) => send(streams, 'checkpoint', { signal, headersTimeout: packMs }, undefined),

    /** Replaces the volume, and the bound environment, by such a stream. The caller has the deadline. */
    restore: async (content: Readable, signal: AbortSignal) => {
      const options = { method: 'PUT', body: content, headersTimeout: 0, signal } as const;
      const answer = await send(streams, 'checkpoint', options, undefined);
      await readBounded(answer.body);
    },

    terminals: async () => (await read(terminalsSchema, 'terminals')).items,
    startTerminal: (id: string, body: ScreenSize & { cwd?: string }) => call(`terminals/${id}`, 'PUT', body),
    endTerminal: (id: string) => call(`terminals/${id}`, 'DELETE'),
    attachTerminal: (id: string, size?: ScreenSize) => attachTerminal(endpoint, id, size),

    close: async () => {
      await Promise.all([agent.destroy(), streams.destroy(), readers.destroy()]);
    },
  };
};

export type BoxServerClient = ReturnType<typeof createBoxServerClient>;

async function* readEvents(
  { body }: StreamedAnswer,
  failed: (error: unknown) => CodeBoxError,
  traced: BoxCall | undefined,
): AsyncGenerator<unknown> {
  let failure: CodeBoxError | undefined;
  try {
    const lines = readLines(body.iterator({ destroyOnReturn: false }));
    yield* traced ? tell(lines, traced) : lines;
  } catch (error) {
    failure = failed(error);
    throw failure;
  } finally {
    traced?.end(failure?.code);
    // After the last event only the end of the body is left: read, it leaves the connection to the next request.
    body.dump({ limit: leftoverBytes }).catch(() => {});
  }
}

async function* tell(lines: AsyncGenerator<unknown>, traced: BoxCall): AsyncGenerator<unknown> {
  for await (const line of lines) {
    traced.event(line);
    yield line;
  }
}

const asJson = (body: unknown) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
