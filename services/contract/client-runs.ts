import type { z } from 'zod';
import { bySeq, followEvents } from './client-events.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './client-transport.ts';
import {
  type CommandInput,
  type CreateCommand,
  commandPageSchema,
  commandSchema,
  commandSummarySchema,
} from './commands.ts';
import { type CommandEvent, commandEventSchema, type ExecutionEvent, executionEventSchema } from './events.ts';
import { type CreateExecution, executionPageSchema, executionSchema, executionSummarySchema } from './executions.ts';
import { type InstallPackages, type PackageManager, packagePageSchema } from './packages.ts';

/** The events of a run as they come, up to `done`, and its id. To be read once. */
export interface EventStream<E> extends AsyncIterable<E> {
  id: string;
}

/** Where to go on: behind this event. */
export interface EventOptions extends CallOptions {
  after?: number;
}

interface Kind<S extends z.ZodType, W extends z.ZodType, E extends { seq: number; type: string }> {
  name: 'executions' | 'commands';
  /** Where it is started, when not where it is read. */
  startedAt?: 'packages';
  /** When the caller sets none. */
  timeoutSeconds: number;
  summary: S;
  whole: W;
  event: z.ZodType<E>;
}

/** What a run may wait for others in its context, besides its own time. */
const queueSeconds = 300;

/** What executions and commands have in common: they run, have numbered events, and end once. */
const createRuns = <
  B extends { timeoutSeconds?: number | undefined },
  S extends z.ZodType,
  W extends z.ZodType,
  E extends { seq: number; type: string },
>(
  transport: Transport,
  { name, startedAt, timeoutSeconds, summary, whole, event }: Kind<S, W, E>,
) => {
  const reopen = (box: string, id: string, options: EventOptions) => (after: number | undefined) =>
    transport.open({ path: `${pathOf('boxes', box, name, id)}/events`, query: { after }, options });

  const events = (box: string, id: string, options: EventOptions = {}): AsyncGenerator<E, void, undefined> =>
    followEvents<E>({ schema: event, counting: bySeq, open: reopen(box, id, options), ...pickEvents(options) });
  const read = (box: string, id: string, options?: CallOptions): Promise<z.output<W>> =>
    transport.json(whole, { path: pathOf('boxes', box, name, id), options });

  return {
    /** Runs it and waits for its end. A program that fails is an answer with a status, not an error. */
    run: (box: string, body: B, options?: CreateOptions): Promise<z.output<W>> =>
      transport.json(whole, {
        method: 'POST',
        path: pathOf('boxes', box, startedAt ?? name),
        json: body,
        creates: true,
        deadlineSeconds: queueSeconds + (body.timeoutSeconds ?? timeoutSeconds),
        options,
      }),

    /** Starts it and answers once it has begun or waits for its turn; its events are read with `events`. */
    start: (box: string, body: B, options?: CreateOptions): Promise<z.output<S>> =>
      transport.json(summary, {
        method: 'POST',
        path: pathOf('boxes', box, startedAt ?? name),
        json: { ...body, detach: true },
        creates: true,
        options,
      }),

    /** Runs it and gives its events as they come; a stream that is cut goes on by itself. */
    async stream(box: string, body: B, options: CreateOptions = {}): Promise<EventStream<E>> {
      const first = await transport.open({
        method: 'POST',
        path: pathOf('boxes', box, startedAt ?? name),
        json: body,
        headers: { accept: 'application/x-ndjson' },
        creates: true,
        options,
      });
      const id = first.headers.get('content-location')?.split('/').at(-1) ?? '';
      const rest = followEvents<E>({
        schema: event,
        counting: bySeq,
        first,
        open: reopen(box, id, options),
        ...pickEvents(options),
      });
      return { id, [Symbol.asyncIterator]: () => rest };
    },

    /** Its events again from any point, and on to `done`. */
    events,

    /** Waits for the end of something that was started. */
    async wait(box: string, id: string, options: CallOptions = {}): Promise<z.output<W>> {
      for await (const _ of events(box, id, options));
      return await read(box, id, options);
    },

    /** With its output until now. */
    read,
  };
};

const pickEvents = ({ after, signal }: EventOptions) => ({
  ...(after !== undefined && { after }),
  ...(signal && { signal }),
});

/** Code in the kernels of a box. */
export const createExecutions = (transport: Transport) => ({
  ...createRuns<Omit<CreateExecution, 'detach'>, typeof executionSummarySchema, typeof executionSchema, ExecutionEvent>(
    transport,
    {
      name: 'executions',
      timeoutSeconds: 60,
      summary: executionSummarySchema,
      whole: executionSchema,
      event: executionEventSchema,
    },
  ),

  /** The newest first. */
  list: (box: string, options?: CallOptions) =>
    transport.items(executionPageSchema, { path: pathOf('boxes', box, 'executions'), options }),

  /** Answers `input()`; `conflict` when it does not wait for that. */
  input: (box: string, execution: string, text: string, options?: CallOptions): Promise<void> =>
    transport.done({
      method: 'POST',
      path: pathOf('boxes', box, 'executions', execution, 'input'),
      json: { text },
      options,
    }),

  /** Stops it; variables are kept. Its `done` tells how that went. */
  interrupt: (box: string, execution: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('boxes', box, 'executions', execution, 'interrupt'), options }),
});

const commandKind = {
  name: 'commands',
  summary: commandSummarySchema,
  whole: commandSchema,
  event: commandEventSchema,
} as const;

/** Processes in a box, beside its kernels. */
export const createCommands = (transport: Transport) => ({
  ...createRuns<Omit<CreateCommand, 'detach'>, typeof commandSummarySchema, typeof commandSchema, CommandEvent>(
    transport,
    { ...commandKind, timeoutSeconds: 60 },
  ),

  /** Those that run, and those that the box still remembers. */
  list: (box: string, options?: CallOptions) =>
    transport.items(commandPageSchema, { path: pathOf('boxes', box, 'commands'), options }),

  /** Writes to its stdin, or closes it; `conflict` unless it was started, or run with `openStdin`. */
  input: (box: string, command: string, input: CommandInput, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('boxes', box, 'commands', command, 'input'), json: input, options }),

  /** Ends it: SIGTERM, then SIGKILL after 2 s. */
  delete: (box: string, command: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'commands', command), options }),
});

/** Packages of a box. An installer is a command: what was started here is read, waited for and ended as one. */
export const createPackages = (transport: Transport) => {
  const installers = createRuns<
    Omit<InstallPackages, 'detach'>,
    typeof commandSummarySchema,
    typeof commandSchema,
    CommandEvent
  >(transport, { ...commandKind, startedAt: 'packages', timeoutSeconds: 300 });
  return {
    /** Installs and waits: `installed` tells what came, its status and output how that went. */
    install: installers.run,
    /** Installs and gives the installer's output as it comes. */
    stream: installers.stream,
    /** Begins to install. */
    start: installers.start,

    /** By name: those of the image, and those installed since. */
    list: (box: string, query: { manager?: PackageManager } = {}, options?: CallOptions) =>
      transport.items(packagePageSchema, { path: pathOf('boxes', box, 'packages'), query, options }),
  };
};
