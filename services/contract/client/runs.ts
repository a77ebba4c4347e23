import type { z } from 'zod';
import {
  type CommandInput,
  type CreateCommand,
  commandPageSchema,
  commandSchema,
  commandSummarySchema,
} from '../runs/commands.ts';
import { type CommandEvent, commandEventSchema, type ExecutionEvent, executionEventSchema } from '../runs/events.ts';
import {
  type CreateExecution,
  executionPageSchema,
  executionSchema,
  executionSummarySchema,
} from '../runs/executions.ts';
import type { RunNotebook } from '../runs/notebooks.ts';
import { type InstallPackages, type PackageManager, packagePageSchema } from '../runs/packages.ts';
import { bySeq, followEvents } from './events.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './transport.ts';

/** The events of a run as they arrive, up to `done`, and its id. It can be read once. */
export interface EventStream<E> extends AsyncIterable<E> {
  id: string;
}

/** `after`: resume after the event with this number. */
export interface EventOptions extends CallOptions {
  after?: number;
}

interface Kind<S extends z.ZodType, W extends z.ZodType, E extends { seq: number; type: string }> {
  name: 'executions' | 'commands';
  /** The path where the run is started, when it differs from the one where it is read. */
  startedAt?: 'packages' | 'notebooks';
  /** The timeout when the caller sets none. */
  timeoutSeconds: number;
  summary: S;
  whole: W;
  event: z.ZodType<E>;
}

/** How long a run may queue behind others in its context, in addition to its own time. */
const queueSeconds = 300;

/** The operations that executions and commands share: both run, emit numbered events, and end once. */
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

  /** Follows a run: its stream that is open already, or one that is opened when it is read. */
  const eventsOf = (box: string, id: string, options: EventOptions, first?: Response) =>
    followEvents<E>({
      schema: event,
      counting: bySeq,
      ...(first && { first }),
      open: reopen(box, id, options),
      ...pickEvents(options),
    });

  const events = (box: string, id: string, options: EventOptions = {}): AsyncGenerator<E, void, undefined> =>
    eventsOf(box, id, options);
  const read = (box: string, id: string, options?: CallOptions): Promise<z.output<W>> =>
    transport.json(whole, { path: pathOf('boxes', box, name, id), options });

  return {
    /** Runs it and waits for its end. A program that fails is a result with a status, not an error. */
    run: (box: string, body: B, options?: CreateOptions): Promise<z.output<W>> =>
      transport.json(whole, {
        method: 'POST',
        path: pathOf('boxes', box, startedAt ?? name),
        json: body,
        creates: true,
        deadlineSeconds: queueSeconds + (body.timeoutSeconds ?? timeoutSeconds),
        options,
      }),

    /** Starts it and resolves once it has begun or is queued; read its events with `events`. */
    start: (box: string, body: B, options?: CreateOptions): Promise<z.output<S>> =>
      transport.json(summary, {
        method: 'POST',
        path: pathOf('boxes', box, startedAt ?? name),
        json: { ...body, detach: true },
        creates: true,
        options,
      }),

    /** Runs it and streams its events as they arrive; a stream that is cut is resumed. */
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
      const rest = eventsOf(box, id, options, first);
      return { id, [Symbol.asyncIterator]: () => rest };
    },

    /** Streams its events from any point, up to `done`. */
    events,

    /**
     * Opens the stream of its events before it resolves, so that an unknown run rejects with `not_found` here. Resolves with undefined
     * when the run has ended and no events follow.
     */
    async follow(
      box: string,
      id: string,
      options: EventOptions = {},
    ): Promise<AsyncGenerator<E, void, undefined> | undefined> {
      const first = await reopen(box, id, options)(options.after);
      return first.body === null ? undefined : eventsOf(box, id, options, first);
    },

    /** Waits for the end of a run that was started before. */
    async wait(box: string, id: string, options: CallOptions = {}): Promise<z.output<W>> {
      for await (const _ of events(box, id, options));
      return await read(box, id, options);
    },

    /** Reads the run with its output so far. */
    read,
  };
};

const pickEvents = ({ after, signal }: EventOptions) => ({
  ...(after !== undefined && { after }),
  ...(signal && { signal }),
});

/** Runs code in the kernels of a box. */
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

  /** Newest first. */
  list: (box: string, options?: CallOptions) =>
    transport.items(executionPageSchema, { path: pathOf('boxes', box, 'executions'), options }),

  /** Provides the text that `input()` reads; rejects with `conflict` when the code does not wait for input. */
  input: (box: string, execution: string, text: string, options?: CallOptions): Promise<void> =>
    transport.done({
      method: 'POST',
      path: pathOf('boxes', box, 'executions', execution, 'input'),
      json: { text },
      options,
    }),

  /** Interrupts the run; variables are kept. Its `done` event reports how it ended. */
  interrupt: (box: string, execution: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('boxes', box, 'executions', execution, 'interrupt'), options }),
});

const commandKind = {
  name: 'commands',
  summary: commandSummarySchema,
  whole: commandSchema,
  event: commandEventSchema,
} as const;

/** Processes in a box, independent of its kernels. */
export const createCommands = (transport: Transport) => ({
  ...createRuns<Omit<CreateCommand, 'detach'>, typeof commandSummarySchema, typeof commandSchema, CommandEvent>(
    transport,
    { ...commandKind, timeoutSeconds: 60 },
  ),

  /** Commands that run, and finished ones that the box still remembers. */
  list: (box: string, options?: CallOptions) =>
    transport.items(commandPageSchema, { path: pathOf('boxes', box, 'commands'), options }),

  /**
   * Writes to stdin, or closes it; rejects with `conflict` unless the command was started detached, or run with
   * `openStdin`.
   */
  input: (box: string, command: string, input: CommandInput, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'POST', path: pathOf('boxes', box, 'commands', command, 'input'), json: input, options }),

  /** Ends the command: SIGTERM, then SIGKILL after 2 s. */
  delete: (box: string, command: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'commands', command), options }),
});

/** Notebooks of a box. The run of one is a command: read it, wait for it and end it as one. */
export const createNotebooks = (transport: Transport) => {
  const runs = createRuns<Omit<RunNotebook, 'detach'>, typeof commandSummarySchema, typeof commandSchema, CommandEvent>(
    transport,
    { ...commandKind, startedAt: 'notebooks', timeoutSeconds: 600 },
  );
  return {
    /** Runs all cells and waits; the file then has their outputs. */
    run: runs.run,
    /** Runs all cells and streams them as they run. */
    stream: runs.stream,
    /** Starts a run. */
    start: runs.start,
  };
};

/** Packages of a box. An installer is a command: read it, wait for it and end it as one. */
export const createPackages = (transport: Transport) => {
  const installers = createRuns<
    Omit<InstallPackages, 'detach'>,
    typeof commandSummarySchema,
    typeof commandSchema,
    CommandEvent
  >(transport, { ...commandKind, startedAt: 'packages', timeoutSeconds: 300 });
  return {
    /** Installs and waits: returns the status, the output, and the new packages as `installed`. */
    install: installers.run,
    /** Installs and streams the installer's output as it arrives. */
    stream: installers.stream,
    /** Starts an installation. */
    start: installers.start,

    /** Packages by name: those of the image and those installed since. */
    list: (box: string, query: { manager?: PackageManager } = {}, options?: CallOptions) =>
      transport.items(packagePageSchema, { path: pathOf('boxes', box, 'packages'), query, options }),
  };
};
