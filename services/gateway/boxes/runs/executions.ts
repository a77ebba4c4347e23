import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import {
  CodeBoxError,
  type CreateExecution,
  type ExecutionDone,
  type ExecutionEvent,
  hasCode,
  type InlineFile,
  isUnavailable,
  type Page,
  type PageQuery,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { BoxExecution } from '../../box-server/protocol/schemas.ts';
import type { ClientMessage, CodeRequest } from '../../box-server/run-requests.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { type BoxRef, boxOf } from '../box-ref.ts';
import { checkInlineFiles, writeInlineFiles } from '../creation/inline-files.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Directory } from '../life/directory.ts';
import { type Recorder, togetherMs } from '../life/recorder.ts';
import type { Catalog } from '../supply/catalog.ts';
import { isOverQuota, type TenantQuotas } from '../usage/quotas.ts';
import type { KnownExecution, ReadExecution } from './execution-view.ts';
import { type Following, hasNeverStarted, lostEvent, type Opened } from './following.ts';
import { readUpTo } from './journal.ts';
import type { Readers } from './readers.ts';

export interface ExecutionsOptions {
  store: Store;
  directory: Pick<Directory, 'find' | 'look' | 'notReadyError'>;
  access: Pick<Access, 'use' | 'useJournals'>;
  catalog: Pick<Catalog, 'languageIn'>;
  activity: Activity;
  background: Background;
  recorder: Recorder;
  budget: CpuBudget;
  following: Following;
  readers: Readers;
  quotas: Pick<TenantQuotas, 'limitsExecutions'>;
}

/** A request to run code. */
export interface ExecutionAsk extends CreateExecution {
  /** The message of a Jupyter client that asked for it. */
  message?: ClientMessage;
  /** Where this code alone runs, relative to the working folder; only in Python. */
  cwd?: string;
  /** Whether a reader of its events gets up to 56 MiB of text, as clients of other servers expect. */
  isLong?: boolean;
  /** Whether nobody answers `input()`, which then fails at once. */
  unattended?: boolean;
}

interface Delivery {
  id: string;
  server: BoxConnection;
  body: CodeRequest;
  insert: () => Promise<ExecutionRow>;
  onAccepted: ((row: ExecutionRow) => Promise<void>) | undefined;
  /** Whether a quota may refuse the record, so that it has to be written before any code is sent. */
  isLimited: boolean;
}

interface Delivered {
  row: ExecutionRow;
  opened: Opened;
}

/** How long a list waits for a box, whose response is optional. */
const lookMs = 2000;
/** How long a reader waits for the end of a run whose box is being ended. */
const endMs = 20_000;
const pollMs = 250;
/** How long the files of a request may take that the box fetches. */
const filesMs = 60_000;
const defaultTimeoutMs = 60_000;
/** The most that a box server keeps of one run. */
const longBytes = 56 * 1024 * 1024;

/** Executions: code runs at most once. The box keeps its events, and PostgreSQL records its end. */
export const createExecutions = (options: ExecutionsOptions) => {
  const { store, directory, access, catalog, activity, background, recorder, budget, following, readers, quotas } =
    options;

  /** Resolves with whether this event is the last one. */
  const hasEnded = async (row: ExecutionRow, server: BoxConnection, after: number): Promise<boolean> => {
    const done = row.done ?? (await server.readExecution(row.id).catch(() => undefined))?.done;
    return done !== null && done !== undefined && done.seq <= after;
  };

  /** Writes the record of an execution and sends its code: both or neither, as far as that can be known. */
  const deliver = async ({ id, server, body, insert, onAccepted, isLimited }: Delivery): Promise<Delivered> => {
    const over = new AbortController();
    // The caller's own signal would cut off a request whose code may or may not have run.
    const left = new AbortController();
    const letGo = following.send(id);
    try {
      const first = onAccepted || isLimited ? await insert() : undefined;
      if (first && onAccepted)
        await onAccepted(first).catch((error) => store.executions.remove(id).then(() => Promise.reject(error)));
      // The record is written while the code is on its way, which is sent first. The caller gets the id once both have arrived.
      const sending = server.execute(id, body, AbortSignal.any([background.signal, over.signal, left.signal]));
      const [sent, written] = await Promise.allSettled([sending, first ?? setImmediate().then(insert)]);
      if (written.status === 'rejected') {
        if (sent.status === 'fulfilled')
          background.run('stop an execution', () => stopUnrecorded(server, id, sent.value));
        throw written.reason;
      }
      if (sent.status === 'rejected' && !isUnavailable(sent.reason)) {
        // The box refused the code, so it never ran.
        await store.executions.remove(id);
        throw sent.reason;
      }
      // A request that was cut off may have run: following it finds out, as after any lost connection.
      const opened = { over, left, ...(sent.status === 'fulfilled' && { events: sent.value }) };
      return { row: written.value, opened };
    } finally {
      letGo();
    }
  };

  /** Retries a write that was over the quota, because a run that has just ended counts until its end is written. */
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
    await directory.find(ref);
    throw new CodeBoxError('not_found', 'There is no such execution.');
  };

  /** Reads the record of an execution whose box is gone, after this gateway has written the ends that it knows. */
  const fromRecord = async (row: ExecutionRow): Promise<ReadExecution> => {
    if (row.done) return { row, done: row.done, events: null };
    await recorder.flush();
    const written = await find(boxOf(row), row.id);
    return { row: written, done: written.done, events: null };
  };

  /** Waits for the recorded end of an execution whose box is gone: the gateway that ends a box records the results of its runs. */
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
      await sleep(pollMs, undefined, { signal });
    }
  };

  async function* liveEvents(row: ExecutionRow, server: BoxConnection, after: number, signal?: AbortSignal) {
    const release = activity.hold(row.boxId);
    try {
      if (after > 0 && (await hasEnded(row, server, after))) return;
      yield* following.events(row, server, after, signal);
    } finally {
      release();
    }
  }

  /** Writes the files that code needs, before there is a record of it. */
  const writeFiles = async (
    server: BoxConnection,
    { id, network }: BoxRow,
    files: readonly InlineFile[],
    leave: AbortSignal | undefined,
  ): Promise<void> => {
    checkInlineFiles(files, network);
    const late = AbortSignal.timeout(filesMs);
    const release = activity.hold(id);
    try {
      await writeInlineFiles(server, files, leave ? AbortSignal.any([late, leave]) : late);
    } finally {
      release();
    }
  };

  return {
    find,

    /** Throws `too_many_requests` when nobody may join the readers of this box. */
    expectReader: readers.expectRoom,

    /**
     * Resolves with whether it is certain that none of its code has run or will. When no end is on record yet, its box is asked, which
     * refuses code that it does not know from then on, and the end is recorded. Throws as the use of a box does when it does not respond.
     */
    async hasNeverStarted(ref: BoxRef, id: string): Promise<boolean> {
      const row = await store.executions.find(ref.tenant, ref.box, id);
      if (row?.status !== 'running') return row !== undefined && hasNeverStarted(row);
      // Whoever follows it here finds its end.
      if (following.isHeld(id)) return false;
      const server = await access.useJournals(ref);
      const done = server && (await following.endIfUnknown(row, server));
      if (!done || !hasNeverStarted(done)) return false;
      recorder.record(row, done);
      await recorder.flush();
      return true;
    },

    /** Lists executions of a box, running ones with what the box reports of them. */
    async list(ref: BoxRef, query: PageQuery): Promise<Page<KnownExecution>> {
      await directory.find(ref);
      const { items, nextCursor } = await store.executions.list(ref.tenant, ref.box, query);
      const isAlive = items.some((row) => row.status === 'running');
      const live = isAlive ? await readUnfinished(directory, ref) : undefined;
      return { items: items.map((row) => ({ row, done: row.done, live: live?.get(row.id) })), nextCursor };
    },

    /**
     * Starts code in a box. Its events can be read once, and leaving them does not stop it; a detached one returns no events. Throws
     * `not_found` for an unknown context, `too_many_requests` when too many executions wait in it, and `quota_exceeded` when the tenant
     * may run no more. Calls `onAccepted` with the record before any code is sent.
     */
    async start(
      ref: BoxRef,
      ask: ExecutionAsk,
      leave?: AbortSignal,
      onAccepted?: (row: ExecutionRow) => Promise<void>,
    ): Promise<{ row: ExecutionRow; events?: AsyncGenerator<ExecutionEvent> }> {
      const { server, ...used } = await access.use(ref);
      const cpuLimitMs = await budget.ofRun(used, ask.cpuSeconds);
      if (ask.files) await writeFiles(server, used.box, ask.files, leave);
      const { context = null } = ask;
      const language = context === null ? await catalog.languageIn(used.box, server, ask.language) : null;
      const id = newId('exe');
      const body = toRequest(ask, language, cpuLimitMs);
      const isLimited = await quotas.limitsExecutions(ref.tenant);
      const write = () =>
        store.executions.insert({ id, box: ref.box, tenant: ref.tenant, context, language, timeoutMs: body.timeoutMs });
      const insert = async () => {
        const row = isLimited ? await afterEnds(write) : await write();
        if (row) return row;
        throw await directory.notReadyError(ref);
      };
      const { row, opened } = await deliver({ id, server, body, insert, onAccepted, isLimited });
      if (ask.detach) {
        following.inBackground(row, server, 0, undefined, opened);
        return { row };
      }
      const reader = leave ? AbortSignal.any([background.signal, leave]) : background.signal;
      return { row, events: following.recorded(row, server, opened, reader) };
    },

    /**
     * Yields the events after `after`, then live ones, up to `done`. For an execution whose box is gone, it yields only `done`. Throws
     * `too_many_requests` when the tenant or the box has too many readers.
     */
    async *events(ref: BoxRef, id: string, after: number, signal?: AbortSignal): AsyncGenerator<ExecutionEvent> {
      const leave = readers.join(ref);
      try {
        const row = await find(ref, id);
        const server = await access.useJournals(ref);
        if (server) yield* liveEvents(row, server, after, signal);
        else {
          const done = await endOnRecord(row, after, signal);
          if (done.seq > after) yield done;
        }
      } finally {
        leave();
      }
    },

    /** Reads an execution with its outputs so far. */
    async read(ref: BoxRef, id: string): Promise<ReadExecution> {
      const row = await find(ref, id);
      const server = await access.useJournals(ref);
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

    /** Lists the latest executions of a Jupyter client that its box knows, the oldest first. */
    async ofSession(ref: BoxRef, session: string): Promise<BoxExecution[]> {
      return await (await access.use(ref)).server.sessionExecutions(session);
    },

    /** Stops an execution; its context keeps its variables if possible. Throws `conflict` when it has ended. */
    async interrupt(ref: BoxRef, id: string): Promise<void> {
      await find(ref, id);
      await (await access.use(ref)).server.interrupt(id);
    },

    /** Sends a line to `input()`. Throws `conflict` when the execution does not wait for input. */
    async input(ref: BoxRef, id: string, text: string): Promise<void> {
      await find(ref, id);
      await (await access.use(ref)).server.input(`executions/${id}`, { text });
    },
  };
};

export type Executions = ReturnType<typeof createExecutions>;

const toRequest = (
  { code, context, timeoutSeconds, cwd, env, autoInstall, message, isLong, unattended }: ExecutionAsk,
  language: string | null,
  cpuLimitMs: number | undefined,
): CodeRequest => ({
  code,
  ...(context !== undefined && { context }),
  ...(language !== null && { language }),
  timeoutMs: timeoutSeconds === undefined ? defaultTimeoutMs : Math.round(timeoutSeconds * 1000),
  ...(cpuLimitMs !== undefined && { cpuLimitMs }),
  ...(cwd !== undefined && { cwd }),
  ...(env && { env }),
  ...(autoInstall && { autoInstall }),
  ...(message && { message }),
  ...(isLong && { outputBytes: longBytes }),
  ...(unattended && { unattended }),
});

/** Stops code that runs although its record could not be written: its caller got an error. */
const stopUnrecorded = async (server: BoxConnection, id: string, events: AsyncIterable<unknown>): Promise<void> => {
  try {
    await server.interrupt(id);
  } finally {
    // Unread events would occupy their connection.
    for await (const _ of events);
  }
};

/** Reads the unfinished executions of a box by id, without using the box; undefined when it rests or does not respond soon. */
const readUnfinished = async (directory: Pick<Directory, 'look'>, ref: BoxRef) => {
  try {
    const { box: row, server } = await directory.look(ref);
    if (row.state !== 'ready') return undefined;
    const unfinished = await server.unfinishedExecutions(AbortSignal.timeout(lookMs));
    return new Map(unfinished.map((execution) => [execution.id, execution]));
  } catch (error) {
    if (error instanceof CodeBoxError) return undefined;
    throw error;
  }
};
