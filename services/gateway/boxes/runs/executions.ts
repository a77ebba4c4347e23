import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import {
  CodeBoxError,
  type CreateExecution,
  type ExecutionDone,
  type ExecutionEvent,
  hasCode,
  isUnavailable,
  type Page,
  type PageQuery,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { CodeRequest } from '../../box-server/client.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { type BoxRef, boxOf } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { type Recorder, togetherMs } from '../life/recorder.ts';
import { resolveLanguage } from '../supply/templates.ts';
import { isOverQuota, type TenantQuotas } from '../usage/quotas.ts';
import type { KnownExecution, ReadExecution } from './execution-view.ts';
import { type Following, hasNeverStarted, lostEvent, type Opened } from './following.ts';
import { readUpTo } from './journal.ts';

export interface ExecutionsOptions {
  store: Store;
  lifecycle: Lifecycle;
  activity: Activity;
  background: Background;
  recorder: Recorder;
  budget: CpuBudget;
  following: Following;
  quotas: Pick<TenantQuotas, 'limitsExecutions'>;
}

interface Delivery {
  id: string;
  server: BoxConnection;
  body: CodeRequest;
  insert: () => Promise<ExecutionRow>;
  onAccepted: ((row: ExecutionRow) => Promise<void>) | undefined;
  /** Its record may be refused, so that no code is sent before. */
  isLimited: boolean;
}

interface Delivered {
  row: ExecutionRow;
  opened: Opened;
}

/** What a list waits for a box, whose answer it can do without. */
const lookMs = 2000;
/** What a reader waits for the end of a run whose box is just being ended. */
const endMs = 20_000;
const lookEveryMs = 250;
const defaultTimeoutMs = 60_000;

/** Executions: code runs at most once, its events are kept by the box, its end is recorded in PostgreSQL. */
export const createExecutions = (options: ExecutionsOptions) => {
  const { store, lifecycle, activity, background, recorder, budget, following, quotas } = options;

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

  /** Writes the record of an execution and sends its code: both or neither, where that can be known. */
  const deliver = async ({ id, server, body, insert, onAccepted, isLimited }: Delivery): Promise<Delivered> => {
    const over = new AbortController();
    // Not the caller's own signal: of code that is cut off on its way nobody knows whether it has run.
    const left = new AbortController();
    const letGo = following.send(id);
    try {
      const first = onAccepted || isLimited ? await insert() : undefined;
      if (first && onAccepted)
        await onAccepted(first).catch((error) => store.executions.remove(id).then(() => Promise.reject(error)));
      // The record is written while the code is on its way, which is let go first; nobody learns the id before both have arrived.
      const sending = server.execute(id, body, AbortSignal.any([background.signal, over.signal, left.signal]));
      const [sent, written] = await Promise.allSettled([sending, first ?? setImmediate().then(insert)]);
      if (written.status === 'rejected') {
        if (sent.status === 'fulfilled')
          background.run('stop an execution', () => stopUnrecorded(server, id, sent.value));
        throw written.reason;
      }
      if (sent.status === 'rejected' && !isUnavailable(sent.reason)) {
        // Refused: it never ran.
        await store.executions.remove(id);
        throw sent.reason;
      }
      // Cut off on the way: it may have run, so what became of it is asked for, as after any cut.
      const opened = { over, left, ...(sent.status === 'fulfilled' && { events: sent.value }) };
      return { row: written.value, opened };
    } finally {
      letGo();
    }
  };

  /** A run that has just ended counts until that is written, which is soon: who goes on behind it is not refused for that. */
  const afterEnds = <T>(write: () => Promise<T>): Promise<T> =>
    write().catch(async (error: unknown) => {
      if (!isOverQuota(error)) throw error;
      await recorder.flush();
      await sleep(2 * togetherMs);
      return await write();
    });

  const find = async (ref: BoxRef, id: string): Promise<ExecutionRow> => {
    const row = await store.executions.find(ref.tenant, ref.box, id);
    if (row) return row;
    await lifecycle.find(ref);
    throw new CodeBoxError('not_found', 'There is no such execution.');
  };

  /** What is on record of an execution whose box is gone, with what this gateway knows and was about to write. */
  const fromRecord = async (row: ExecutionRow): Promise<ReadExecution> => {
    if (row.done) return { row, done: row.done, events: null };
    await recorder.flush();
    const written = await find(boxOf(row), row.id);
    return { row: written, done: written.done, events: null };
  };

  /** The end of an execution whose box is gone. Whoever ends a box writes how its runs went before it calls any of them lost. */
  const endOnRecord = async (known: ExecutionRow, after: number, signal?: AbortSignal): Promise<ExecutionDone> => {
    const deadline = performance.now() + endMs;
    for (;;) {
      const { row } = await fromRecord(known);
      if (row.done) return row.done;
      if (row.status !== 'running')
        return lostEvent(after + 1, row.cause ?? { code: 'box_lost', detail: 'The box is gone.' });
      if (performance.now() > deadline)
        throw new CodeBoxError('unavailable', 'The end of the execution is not on record yet.', {
          retryAfterSeconds: 1,
        });
      await sleep(lookEveryMs, undefined, { signal });
    }
  };

  return {
    find,

    /** Whether it is certain that none of its code has run or will. */
    hasNeverStarted: async (ref: BoxRef, id: string): Promise<boolean> => {
      const row = await store.executions.find(ref.tenant, ref.box, id);
      return row !== undefined && hasNeverStarted(row);
    },

    /** Executions of a box; of those that run with what the box tells of them. */
    async list(ref: BoxRef, query: PageQuery): Promise<Page<KnownExecution>> {
      await lifecycle.find(ref);
      const { items, nextCursor } = await store.executions.list(ref.tenant, ref.box, query);
      const isAlive = items.some((row) => row.status === 'running');
      const live = isAlive ? await readUnfinished(lifecycle, ref) : undefined;
      return { items: items.map((row) => ({ row, done: row.done, live: live?.get(row.id) })), nextCursor };
    },

    /**
     * Starts code in a box. Its events can be read once; leaving them does not stop it; a detached one has none to read here.
     * Throws `not_found` for a context that is not there, `too_many_requests` when too many wait in it, and `quota_exceeded` when the
     * tenant may run no more.
     * `onAccepted` is told before any code is sent.
     */
    async start(
      ref: BoxRef,
      ask: CreateExecution,
      leave?: AbortSignal,
      onAccepted?: (row: ExecutionRow) => Promise<void>,
    ): Promise<{ row: ExecutionRow; events?: AsyncGenerator<ExecutionEvent> }> {
      const { server, ...used } = await lifecycle.use(ref);
      const cpuLimitMs = await budget.ofRun(used, ask.cpuSeconds);
      const { context = null } = ask;
      const language = context === null ? languageOf(used.box, ask.language) : null;
      const id = newId('exe');
      const body = toRequest(ask, language, cpuLimitMs);
      const isLimited = await quotas.limitsExecutions(ref.tenant);
      const write = () =>
        store.executions.insert({ id, box: ref.box, tenant: ref.tenant, context, language, timeoutMs: body.timeoutMs });
      const insert = async () => {
        const row = isLimited ? await afterEnds(write) : await write();
        if (row) return row;
        throw await lifecycle.notReady(ref);
      };
      const { row, opened } = await deliver({ id, server, body, insert, onAccepted, isLimited });
      if (ask.detach) {
        following.inBackground(row, server, 0, undefined, opened);
        return { row };
      }
      const reader = leave ? AbortSignal.any([background.signal, leave]) : background.signal;
      return { row, events: following.recorded(row, server, opened, reader) };
    },

    /** The events after `after`, then live, to `done`. Those of an execution whose box is gone are just its `done`. */
    async *events(ref: BoxRef, id: string, after: number, signal?: AbortSignal): AsyncGenerator<ExecutionEvent> {
      const row = await find(ref, id);
      const server = await lifecycle.past(ref, { isUse: true });
      if (!server) {
        const done = await endOnRecord(row, after, signal);
        if (done.seq > after) yield done;
        return;
      }
      const release = activity.hold(ref.box);
      try {
        if (after > 0 && (await hasEnded(row, server, after))) return;
        yield* following.events(row, server, after, signal);
      } finally {
        release();
      }
    },

    /** An execution with what it has put out until now. */
    async read(ref: BoxRef, id: string): Promise<ReadExecution> {
      const row = await find(ref, id);
      const server = await lifecycle.past(ref, { isUse: true });
      if (!server) return await fromRecord(row);
      try {
        const live = await server.readExecution(id);
        const { done, lastSeq } = live;
        const events = await readUpTo(following.events(row, server, 0, AbortSignal.timeout(30_000)), lastSeq);
        if (done && row.status === 'running') recorder.record(row, done);
        return { row, done: row.done ?? done, live, events };
      } catch (error) {
        if (hasCode(error, 'not_found')) return { row, done: row.done, events: null };
        throw error;
      }
    },

    /** Stops it; its context keeps its variables if it can. `conflict` when it has ended. */
    async interrupt(ref: BoxRef, id: string): Promise<void> {
      await find(ref, id);
      await (await lifecycle.use(ref)).server.interrupt(id);
    },

    /** Answers `input()`. `conflict` when it does not wait for input. */
    async input(ref: BoxRef, id: string, text: string): Promise<void> {
      await find(ref, id);
      await (await lifecycle.use(ref)).server.input(`executions/${id}`, { text });
    },
  };
};

export type Executions = ReturnType<typeof createExecutions>;

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

/** What a box has not ended yet, by id; nothing from one that rests or does not answer soon. Looking is no use of it. */
const readUnfinished = async (lifecycle: Lifecycle, ref: BoxRef) => {
  try {
    const { box: row, server } = await lifecycle.look(ref);
    if (row.state !== 'ready') return undefined;
    const unfinished = await server.unfinishedExecutions(AbortSignal.timeout(lookMs));
    return new Map(unfinished.map((execution) => [execution.id, execution]));
  } catch (error) {
    if (error instanceof CodeBoxError) return undefined;
    throw error;
  }
};
