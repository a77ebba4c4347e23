import {
  type Cause,
  CodeBoxError,
  type Command,
  type CommandDone,
  type CommandEvent,
  type CommandInput,
  type CommandSummary,
  type CreateCommand,
  commandEventSchema,
  type ExecutionEvent,
  isUnavailable,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { BoxCommand } from '../../box-server/protocol/schemas.ts';
import type { ProcessLimits } from '../../box-server/run-requests.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Endings } from '../life/endings.ts';
import { shownFolder } from '../life/working-folder.ts';
import { follow, readUpTo } from './journal.ts';
import type { Readers } from './readers.ts';
import { startRunClock } from './run-clock.ts';

export interface CommandsOptions {
  access: Pick<Access, 'use'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  activity: Activity;
  background: Background;
  budget: CpuBudget;
  readers: Readers;
  /** Aborted when this gateway begins to stop. */
  stopping: AbortSignal;
  /** How long a box may take to report the end of a command, beyond everything that the command itself may take. */
  graceMs: number;
}

/** The command that a caller asked to start. */
export interface CommandStart {
  command?: string | null | undefined;
  argv?: string[] | null | undefined;
  cwd?: string | undefined;
}

/** The timeout of a new process, and the controller that is aborted when its box reports no end in time. */
interface Patience {
  timeoutMs: number;
  over: AbortController;
}

/** Called with the id of a process that is about to be started. */
export type OnAccepted = (id: string) => Promise<void>;

const defaultTimeoutMs = 60_000;
const commandId = /^cmd-[a-z2-7]{26}$/;

/** A process of a box whose events are followed. */
export interface Followed {
  ref: BoxRef;
  server: BoxConnection;
  id: string;
  /** A stream of its events from the first one, if that is already open. */
  opened?: AsyncIterable<unknown>;
  patience?: Patience | undefined;
}

/** The reader of the events of a new process: none, or one until it leaves. */
interface Reading {
  isDetached: boolean | undefined;
  leave: AbortSignal | undefined;
}

/** How a new process starts. */
export interface Launch extends Reading {
  timeoutMs: number | undefined;
  cpuSeconds?: number | undefined;
  /** Called with its id before the request is sent to the box. */
  onAccepted: OnAccepted | undefined;
}

export const toMs = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : Math.round(seconds * 1000);

/** Commands: processes in a box beside its kernels. The box keeps their journals. Running commands keep it in use, and end with it. */
export const createCommands = (options: CommandsOptions) => {
  const { access, endings, activity, background, budget, readers, stopping, graceMs } = options;

  async function* followed(what: Followed, after: number, signal?: AbortSignal): AsyncGenerator<CommandEvent> {
    const { ref, server, id, opened, patience } = what;
    const release = activity.hold(ref.box);
    const clock = patience && startRunClock({ ...patience, graceMs, freeForMs: async () => undefined });
    // A command starts at once, without a queue.
    clock?.begin();
    try {
      const events = follow<CommandEvent>({
        server,
        journal: `commands/${id}`,
        schema: commandEventSchema,
        after,
        ...(opened && { opened }),
        causeOfLoss: () => endings.causeOfLoss(ref),
        lost: lostEvent,
        signal,
        ...(patience && { overdue: patience.over.signal }),
      });
      for await (const event of events) yield event.type === 'started' ? { ...event, command: id } : event;
    } finally {
      clock?.stop();
      release();
    }
  }

  /** Follows a process to its end, which keeps its box in use. A stopping gateway leaves that to the others. */
  const attend = (what: Followed, after: number): void =>
    background.run('follow a command', async () => {
      try {
        const events = followed(what, after, stopping);
        while (!(await events.next()).done);
      } catch (error) {
        if (!stopping.aborted && !isUnavailable(error)) throw error;
      }
    });

  /** Passes events on, and follows the process to its end when the reader leaves first. */
  async function* attended(what: Followed, leave: AbortSignal | undefined): AsyncGenerator<CommandEvent> {
    let last: CommandEvent | undefined;
    try {
      for await (const event of followed(what, 0, leave)) {
        last = event;
        yield event;
      }
    } finally {
      const { ref, server, id } = what;
      if (last?.type !== 'done') attend({ ref, server, id }, last?.seq ?? 0);
    }
  }

  const begun = (what: Followed, { isDetached, leave }: Reading): AsyncGenerator<CommandEvent> | undefined => {
    if (!isDetached) return attended(what, leave);
    attend(what, 0);
    return undefined;
  };

  /** Returns the signal that ends the response of the box to a start, once nobody reads it any more. */
  const unread = ({ isDetached, leave }: Reading, over: AbortController): AbortSignal => {
    const reader = isDetached ? stopping : leave;
    return reader ? AbortSignal.any([reader, over.signal]) : over.signal;
  };

  /**
   * Starts a process by `send`, which passes its id and its limits to the box. Resolves with its id and its events from the first one, to be
   * read once; without events for a detached one.
   */
  const launch = async (
    ref: BoxRef,
    { timeoutMs, cpuSeconds, isDetached, leave, onAccepted }: Launch,
    send: (
      server: BoxConnection,
      id: string,
      limits: ProcessLimits,
      unread: AbortSignal,
    ) => Promise<AsyncIterable<unknown>>,
  ) => {
    const { server, ...used } = await access.use(ref);
    const cpuLimitMs = await budget.ofRun(used, cpuSeconds);
    const id = newId('cmd');
    const over = new AbortController();
    const reading = { isDetached, leave };
    await onAccepted?.(id);
    const limits = { ...(timeoutMs !== undefined && { timeoutMs }), ...(cpuLimitMs !== undefined && { cpuLimitMs }) };
    const opened = await send(server, id, limits, unread(reading, over));
    const patience = timeoutMs === undefined ? undefined : { timeoutMs, over };
    return { id, events: begun({ ref, server, id, opened, patience }, reading) };
  };

  const useOne = async (ref: BoxRef, id: string): Promise<BoxConnection> => {
    const { server } = await access.use(ref);
    if (!commandId.test(id)) throw new CodeBoxError('not_found', 'There is no such command.');
    return server;
  };

  const read = async (ref: BoxRef, id: string): Promise<CommandSummary> =>
    toSummary(ref.box, await (await useOne(ref, id)).readCommand(id));

  return {
    read,

    /** Throws `too_many_requests` when nobody may join the readers of this box. */
    expectReader: readers.expectRoom,

    attend,
    launch,

    async list(ref: BoxRef): Promise<CommandSummary[]> {
      const { server } = await access.use(ref);
      return (await server.commands()).map((command) => toSummary(ref.box, command));
    },

    /**
     * Starts a process. Its events can be read once, and leaving them does not stop it; a detached one returns no events. Calls
     * `onAccepted` with its id before the request is sent to the box.
     */
    async start(ref: BoxRef, ask: CreateCommand, leave?: AbortSignal, onAccepted?: OnAccepted) {
      const { timeoutSeconds, cpuSeconds, detach, command, argv, cwd, env, stdin } = ask;
      const timeoutMs = toMs(timeoutSeconds) ?? (detach ? undefined : defaultTimeoutMs);
      return await launch(
        ref,
        { timeoutMs, cpuSeconds, isDetached: detach, leave, onAccepted },
        (server, id, limits, unread) =>
          server.command(
            id,
            {
              ...(command !== undefined && { command }),
              ...(argv !== undefined && { argv }),
              ...(cwd !== undefined && { cwd }),
              ...(env !== undefined && { env }),
              ...(stdin !== undefined && { stdin }),
              ...limits,
              openStdin: ask.openStdin ?? (detach === true && stdin === undefined),
            },
            unread,
          ),
      );
    },

    /** Yields the events after `after`, then live ones, up to `done`. Throws `not_found` for a command that the box does not know. */
    async *events(ref: BoxRef, id: string, after: number, signal?: AbortSignal): AsyncGenerator<CommandEvent> {
      const leave = readers.join(ref);
      try {
        const server = await useOne(ref, id);
        await server.readCommand(id);
        yield* followed({ ref, server, id }, after, signal);
      } finally {
        leave();
      }
    },

    /** Reads a command with its output so far. */
    async readWhole(ref: BoxRef, id: string): Promise<Command> {
      const server = await useOne(ref, id);
      const command = await server.readCommand(id);
      const events = await readUpTo(followed({ ref, server, id }, 0, AbortSignal.timeout(30_000)), command.lastSeq);
      return withOutputs(toSummary(ref.box, command), events);
    },

    /** Writes to the stdin of a command. Throws `conflict` when that is closed. */
    async input(ref: BoxRef, id: string, input: CommandInput): Promise<void> {
      await (await useOne(ref, id)).input(`commands/${id}`, input);
    },

    /** Ends a command and its process group: SIGTERM, then SIGKILL after 2 s. */
    async kill(ref: BoxRef, id: string): Promise<void> {
      await (await useOne(ref, id)).killCommand(id);
    },
  };
};

export type Commands = ReturnType<typeof createCommands>;

const lostEvent = (seq: number, cause: Cause): CommandDone => ({
  seq,
  type: 'done',
  status: 'lost',
  cause,
  durationMs: 0,
  exitCode: null,
  signal: null,
});

const toSummary = (box: string, command: BoxCommand): CommandSummary => ({
  id: command.id,
  box,
  command: command.command ?? null,
  argv: command.argv ?? null,
  cwd: shownFolder(command.cwd),
  pid: command.pid,
  status: command.done?.status ?? 'running',
  ...(command.done?.cause && { cause: command.done.cause }),
  exitCode: command.done?.exitCode ?? null,
  signal: command.done?.signal ?? null,
  durationMs: command.done?.durationMs ?? null,
  cpuMs: command.done?.cpuMs ?? null,
  processes: command.done?.processes ?? null,
  files: command.done?.files ?? null,
  ...(command.done?.installed && { installed: command.done.installed }),
  ...(command.done?.hint && { hint: command.done.hint }),
  lastSeq: command.lastSeq,
});

/** Returns the text of one stream of a run. */
export const streamText = (events: readonly (CommandEvent | ExecutionEvent)[], type: 'stdout' | 'stderr'): string =>
  events.map((event) => (event.type === type ? event.text : '')).join('');

/** Converts a command that has ended to JSON, from its request and its events. */
export const toCommand = (id: string, box: string, ask: CommandStart, events: CommandEvent[]): Command => {
  const started = events.find((event) => event.type === 'started');
  const last = events.at(-1);
  const done = last?.type === 'done' ? last : null;
  const { command = null, argv = null, cwd = '' } = ask;
  const state = done ? ('done' as const) : ('running' as const);
  const summary = toSummary(box, {
    id,
    command,
    argv,
    cwd,
    pid: started?.pid ?? null,
    state,
    lastSeq: last?.seq ?? 0,
    done,
  });
  return withOutputs(summary, events);
};

const withOutputs = (summary: CommandSummary, events: CommandEvent[]): Command => ({
  ...summary,
  stdout: streamText(events, 'stdout'),
  stderr: streamText(events, 'stderr'),
  outputs: events.filter((event) => event.type !== 'started' && event.type !== 'done'),
});
