import { setImmediate } from 'node:timers/promises';
import {
  type Cause,
  CodeBoxError,
  type Context,
  type CreateExecution,
  type ExecutionDone,
  type ExecutionEvent,
  executionEventSchema,
  type PageQuery,
} from '#contract';
import type { CodeRequest } from '../box-server/client.ts';
import type { BoxConnection } from '../box-server/connections.ts';
import type { BoxRow } from '../store/boxes.ts';
import type { ExecutionRow } from '../store/executions.ts';
import type { Store } from '../store/store.ts';
import type { Activity } from './activity.ts';
import type { Background } from './background.ts';
import type { CpuBudget } from './cpu-budget.ts';
import type { ReadExecution } from './execution-view.ts';
import { newId } from './id.ts';
import { follow } from './journal.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { Recorder } from './recorder.ts';
import { noEnd, patienceMs, startRunClock } from './run-clock.ts';
import { resolveLanguage } from './templates.ts';

export interface ExecutionsOptions {
  store: Store;
  lifecycle: Lifecycle;
  activity: Activity;
  background: Background;
  recorder: Recorder;
  budget: CpuBudget;
  /** What a box may take to tell of the end of a run, beside all that the run itself may take. */
  graceMs: number;
}

/** What a box has begun to answer, if it did. */
interface Opened {
  events?: AsyncIterable<unknown>;
  /** Ends that answer when it has to be given up on. */
  over: AbortController;
  /** Ends it when its reader leaves. */
  left: AbortController;
}

const defaultTimeoutMs = 60_000;
/** For executions of which no time is on record. */
const maxTimeoutMs = 3_600_000;
const boxesAtOnce = 8;

/** Executions: code runs at most once, its events are kept by the box, its end is recorded in PostgreSQL. */
export const createExecutions = (options: ExecutionsOptions) => {
  const { store, lifecycle, activity, background, recorder, budget, graceMs } = options;
  const patienceOf = (row: ExecutionRow) => ({ timeoutMs: row.timeoutMs ?? maxTimeoutMs, graceMs });

  async function* followRow(
    row: ExecutionRow,
    server: BoxConnection,
    after: number,
    signal?: AbortSignal,
    opened?: Opened,
  ): AsyncGenerator<ExecutionEvent> {
    const over = opened?.over ?? new AbortController();
    const freeForMs = () => store.executions.freeForMs(row);
    const clock = startRunClock({ ...patienceOf(row), over, freeForMs });
    const events = follow<ExecutionEvent>({
      server,
      journal: `executions/${row.id}`,
      schema: executionEventSchema,
      after,
      ...(opened?.events && { opened: opened.events }),
      whyGone: () => lifecycle.whyGone(row.tenantId, row.boxId),
      // Its outputs may be forgotten while its end is on record.
      lost: async (seq, cause) => (row.done ? { ...row.done, seq } : await forgotten(row, server, seq, cause)),
      signal,
      overdue: over.signal,
    });
    try {
      for await (const event of events) {
        if (event.type === 'started') clock.begin();
        yield event;
      }
    } finally {
      clock.stop();
    }
  }

  /** Passes events on and sees to it that the end is recorded, also when the reader leaves first. */
  async function* recorded(row: ExecutionRow, server: BoxConnection, opened: Opened, signal?: AbortSignal) {
    const release = activity.hold(row.boxId);
    const leave = () => opened.left.abort();
    if (signal?.aborted) leave();
    signal?.addEventListener('abort', leave, { once: true });
    let seq = 0;
    let where: { context: string; language: string } | undefined;
    let isDone = false;
    try {
      for await (const event of followRow(row, server, 0, signal, opened)) {
        seq = event.seq;
        if (event.type === 'started') where = { context: event.context, language: event.language };
        if (event.type === 'done') {
          isDone = true;
          recorder.record(row, event, where);
        }
        yield event;
      }
    } finally {
      signal?.removeEventListener('abort', leave);
      if (!isDone) background.run('follow an execution', () => untilDone(row, server, seq, where));
      release();
    }
  }

  const untilDone = async (
    row: ExecutionRow,
    server: BoxConnection,
    after: number,
    where?: { context: string; language: string },
    opened?: Opened,
  ) => {
    for await (const event of followRow(row, server, after, background.signal, opened)) {
      if (event.type === 'started') where = { context: event.context, language: event.language };
      if (event.type === 'done') recorder.record(row, event, where);
    }
  };

  /** Whether nothing comes after this event any more. */
  const hasEnded = async (row: ExecutionRow, server: BoxConnection, after: number): Promise<boolean> => {
    const done = row.done ?? (await server.readExecution(row.id).catch(() => undefined))?.done;
    return done !== null && done !== undefined && done.seq <= after;
  };

  /** A box whose template is no longer configured decides by itself what it can run. */
  const languageOf = (box: BoxRow, asked: string | undefined): string => {
    const template = lifecycle.templateOf(box);
    return template ? resolveLanguage(template.languages, asked) : (asked ?? 'python');
  };

  const find = async (tenant: string, box: string, id: string): Promise<ExecutionRow> => {
    const row = await store.executions.find(tenant, box, id);
    if (row) return row;
    await lifecycle.find(tenant, box);
    throw new CodeBoxError('not_found', 'There is no such execution.');
  };

  return {
    find,
    list: async (tenant: string, box: string, query: PageQuery) => {
      await lifecycle.find(tenant, box);
      return await store.executions.list(tenant, box, query);
    },

    /**
     * Starts code in a box. Its events can be read once; leaving them does not stop it; a detached one has none to read here.
     * Throws `not_found` for a context that is not there and `too_many_requests` when too many wait in it.
     * `onAccepted` is told before any code is sent.
     */
    async start(
      tenant: string,
      box: string,
      ask: CreateExecution,
      leave?: AbortSignal,
      onAccepted?: (row: ExecutionRow) => Promise<void>,
    ): Promise<{ row: ExecutionRow; events?: AsyncGenerator<ExecutionEvent> }> {
      const { server, ...used } = await lifecycle.use(tenant, box);
      const cpuLimitMs = await budget.ofRun(used, ask.cpuSeconds);
      const { context = null } = ask;
      const language = context === null ? languageOf(used.box, ask.language) : null;
      const id = newId('exe');
      const over = new AbortController();
      // Not `leave` itself: of code that is cut off on its way nobody knows whether it has run.
      const left = new AbortController();
      const signal = AbortSignal.any([background.signal, over.signal, left.signal]);
      const body = toRequest(ask, language, cpuLimitMs);
      const { timeoutMs } = body;
      const insert = () => store.executions.insert({ id, box, tenant, context, language, timeoutMs });
      const first = onAccepted && (await insert());
      if (first) await onAccepted(first);
      // The record is written while the code is on its way, which is let go first; nobody learns the id before both have arrived.
      const sending = server.execute(id, body, signal);
      const [sent, written] = await Promise.allSettled([sending, first ?? setImmediate().then(insert)]);
      if (written.status === 'rejected') {
        if (sent.status === 'fulfilled')
          background.run('stop an execution', () => stopUnrecorded(server, id, sent.value));
        throw written.reason;
      }
      const row = written.value;
      if (sent.status === 'rejected' && !isUnavailable(sent.reason)) {
        // Refused: it never ran.
        await store.executions.remove(id);
        throw sent.reason;
      }
      // Cut off on the way: it may have run, so what became of it is asked for, as after any cut.
      const opened = { over, left, ...(sent.status === 'fulfilled' && { events: sent.value }) };
      const reader = leave ? AbortSignal.any([background.signal, leave]) : background.signal;
      if (!ask.detach) return { row, events: recorded(row, server, opened, reader) };
      background.run('follow an execution', () => untilDone(row, server, 0, undefined, opened));
      return { row };
    },

    /** The events after `after`, then live, to `done`. Those of an execution whose box is gone are just its `done`. */
    async *events(
      tenant: string,
      box: string,
      id: string,
      after: number,
      signal?: AbortSignal,
    ): AsyncGenerator<ExecutionEvent> {
      const row = await find(tenant, box, id);
      const server = await reach(lifecycle, tenant, box);
      if (!server) {
        const done = row.done ?? lostEvent(after + 1, row.cause ?? { code: 'box_lost', detail: 'The box is gone.' });
        if (done.seq > after) yield done;
        return;
      }
      const release = activity.hold(box);
      try {
        if (after > 0 && (await hasEnded(row, server, after))) return;
        yield* followRow(row, server, after, signal);
      } finally {
        release();
      }
    },

    /** An execution with what it has put out until now. */
    async read(tenant: string, box: string, id: string): Promise<ReadExecution> {
      const row = await find(tenant, box, id);
      const server = await reach(lifecycle, tenant, box);
      if (!server) return { row, done: row.done, events: null };
      try {
        const { done, lastSeq } = await server.readExecution(id);
        const events: ExecutionEvent[] = [];
        if (lastSeq > 0) {
          for await (const event of followRow(row, server, 0, AbortSignal.timeout(30_000))) {
            events.push(event);
            if (event.seq >= lastSeq) break;
          }
        }
        if (done && row.status === 'running') recorder.record(row, done);
        return { row, done: row.done ?? done, events };
      } catch (error) {
        if (error instanceof CodeBoxError && error.code === 'not_found') return { row, done: row.done, events: null };
        throw error;
      }
    },

    /** Stops it; its context keeps its variables if it can. `conflict` when it has ended. */
    async interrupt(tenant: string, box: string, id: string): Promise<void> {
      await find(tenant, box, id);
      await (await lifecycle.use(tenant, box)).server.interrupt(id);
    },

    /** Answers `input()`. `conflict` when it does not wait for input. */
    async input(tenant: string, box: string, id: string, text: string): Promise<void> {
      await find(tenant, box, id);
      await (await lifecycle.use(tenant, box)).server.input(`executions/${id}`, { text });
    },

    /** Records the ends of executions that no gateway is following any more, page by page. */
    async settle(olderThanMs: number): Promise<void> {
      const pageSize = 200;
      for (let after = ''; ; ) {
        const rows = await store.executions.running(after, olderThanMs, pageSize);
        const boxes = [...Map.groupBy(rows, (row) => row.boxId).values()];
        for (let at = 0; at < boxes.length; at += boxesAtOnce) {
          await Promise.all(boxes.slice(at, at + boxesAtOnce).map(settleBox));
        }
        const last = rows.at(-1);
        if (rows.length < pageSize || !last) return;
        after = last.id;
      }
    },
  };

  /** One after the other; a box that did not answer once is left for the next time. */
  async function settleBox(rows: ExecutionRow[]): Promise<void> {
    for (const row of rows) if (!(await background.attempt('settle an execution', () => settleOne(row)))) return;
  }

  /** Whether its box has had more time than it needs to tell of its end, the time in the queue aside. */
  async function isOverdue(row: ExecutionRow): Promise<boolean> {
    const { timeoutMs } = patienceOf(row);
    return ((await store.executions.freeForMs(row)) ?? 0) > patienceMs(timeoutMs, graceMs);
  }

  async function settleOne(row: ExecutionRow): Promise<void> {
    const server = await reach(lifecycle, row.tenantId, row.boxId);
    let cause: Cause | undefined;
    try {
      const found = await server?.readExecution(row.id);
      if (found && !found.done) {
        if (await isOverdue(row)) recorder.record(row, lostEvent(found.lastSeq + 1, noEnd));
        return;
      }
      const where = found?.context && found.language ? { context: found.context, language: found.language } : undefined;
      if (found?.done) return recorder.record(row, found.done, where);
    } catch (error) {
      if (!(error instanceof CodeBoxError)) throw error;
      if (error.code === 'not_found') cause = { code: 'journal_lost', detail: 'The box no longer knows this run.' };
    }
    cause ??= await lifecycle.whyGone(row.tenantId, row.boxId);
    if (!cause && (await isOverdue(row))) cause = noEnd;
    if (!cause) throw new CodeBoxError('unavailable', 'The box does not answer.');
    recorder.record(row, server ? await forgotten(row, server, 1, cause) : lostEvent(1, cause));
  }
};

export type Executions = ReturnType<typeof createExecutions>;

const isUnavailable = (error: unknown): boolean => error instanceof CodeBoxError && error.code === 'unavailable';

const toRequest = (
  { code, context, timeoutSeconds, env, autoInstall }: CreateExecution,
  language: string | null,
  cpuLimitMs: number | undefined,
): CodeRequest => ({
  code,
  ...(context !== undefined && { context }),
  ...(language !== null && { language }),
  timeoutMs: timeoutSeconds === undefined ? defaultTimeoutMs : Math.round(timeoutSeconds * 1000),
  ...(cpuLimitMs !== undefined && { cpuLimitMs }),
  ...(env && { env }),
  ...(autoInstall && { autoInstall }),
});

/** Code that is running although its record could not be written: its caller was told that it did not start. */
const stopUnrecorded = async (server: BoxConnection, id: string, events: AsyncIterable<unknown>): Promise<void> => {
  await server.interrupt(id);
  for await (const _ of events);
};

/** The connection to a box that can still be asked, or undefined when it has ended. */
const reach = async (lifecycle: Lifecycle, tenant: string, box: string): Promise<BoxConnection | undefined> => {
  try {
    return (await lifecycle.use(tenant, box)).server;
  } catch (error) {
    if (error instanceof CodeBoxError && error.code === 'gone') return undefined;
    throw error;
  }
};

const lostEvent = (seq: number, cause: Cause): ExecutionDone => ({
  seq,
  type: 'done',
  status: 'lost',
  cause,
  durationMs: 0,
  stateLost: true,
});

/** The end of an execution that its box may have forgotten: then the context, if it is still there, has its variables. */
const forgotten = async (
  row: ExecutionRow,
  server: BoxConnection,
  seq: number,
  cause: Cause,
): Promise<ExecutionDone> => {
  const done = lostEvent(seq, cause);
  if (cause.code !== 'journal_lost') return done;
  const isItsOwn = ({ id, language, default: isDefault }: Context) =>
    row.context === null ? isDefault && language === row.language : id === row.context;
  // Of a box that does not answer the variables count as gone.
  const contexts = await server.contexts().catch(() => []);
  return { ...done, stateLost: !contexts.some(isItsOwn) };
};
