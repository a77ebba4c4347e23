import {
  type Cause,
  CodeBoxError,
  type Context,
  type ExecutionDone,
  type ExecutionEvent,
  executionEventSchema,
  hasCode,
} from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { boxOf } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { Directory } from '../life/directory.ts';
import type { Endings } from '../life/endings.ts';
import type { Recorder } from '../life/recorder.ts';
import { follow, journalLost } from './journal.ts';
import { patienceMs, startRunClock } from './run-clock.ts';

export interface FollowingOptions {
  store: Pick<Store, 'executions'>;
  directory: Pick<Directory, 'find'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  activity: Activity;
  background: Background;
  recorder: Recorder;
  /** How long a box may take to report the end of a run, beyond everything that the run itself may take. */
  graceMs: number;
}

/** The response of a box to a request to run code, if it has begun. */
export interface Opened {
  events?: AsyncIterable<unknown>;
  /** Ends the response when the gateway stops waiting for the box. */
  over: AbortController;
  /** Ends the response when its reader leaves. */
  left: AbortController;
}

/** The context where an execution runs, once that is known. */
export interface Where {
  context: string;
  language: string;
}

/** The timeout of executions whose record has none. */
const maxTimeoutMs = 3_600_000;

/** Follows executions in their boxes, and makes sure that the ends of those of this gateway are recorded. */
export const createFollowing = (options: FollowingOptions) => {
  const { store, directory, endings, activity, background, recorder, graceMs } = options;
  const held = new Map<string, number>();
  const sent = new Set<string>();
  const timeoutOf = (row: ExecutionRow): number => row.timeoutMs ?? maxTimeoutMs;
  const longest = { longestMs: maxTimeoutMs, slackMs: patienceMs(0, graceMs) };
  const freeForMs = (row: ExecutionRow) => store.executions.freeForMs(row, longest);

  /** Marks an execution as followed here until the returned function is called. */
  const hold = (id: string): (() => void) => {
    held.set(id, (held.get(id) ?? 0) + 1);
    return () => {
      const left = (held.get(id) ?? 1) - 1;
      if (left > 0) held.set(id, left);
      else held.delete(id);
    };
  };

  /** Marks code as on its way until the returned function is called: its box may not know it yet. */
  const send = (id: string): (() => void) => {
    const release = hold(id);
    sent.add(id);
    return () => {
      sent.delete(id);
      release();
    };
  };

  /** Makes the box refuse the code if it arrives later. Resolves with whether it never has arrived and never will. */
  const isRefused = async (row: ExecutionRow, server: BoxConnection): Promise<boolean> => {
    const never = await server.refuseExecution(row.id).then(
      () => true,
      () => false,
    );
    if (!never) return false;
    // An earlier instance of the box may have run it.
    const { restoredAt } = await directory.find(boxOf(row));
    return restoredAt === null || restoredAt < row.createdAt;
  };

  /** Returns the end of an execution that its box does not know. Its variables are kept if its context still exists. */
  const forgotten = async (
    row: ExecutionRow,
    server: BoxConnection,
    seq: number,
    cause: Cause,
  ): Promise<ExecutionDone> => {
    const done = lostEvent(seq, cause);
    if (cause.code !== 'journal_lost') return done;
    if (seq === 1 && (await isRefused(row, server))) return { ...lostEvent(seq, notStarted), stateLost: false };
    const isItsOwn = ({ id, language, default: isDefault }: Context) =>
      row.context === null ? isDefault && language === row.language : id === row.context;
    // If the box does not respond, the variables count as gone.
    const contexts = await server.contexts().catch(() => []);
    return { ...done, stateLost: !contexts.some(isItsOwn) };
  };

  /** Finds out how an execution ended that its box does not know. */
  const lost = async (row: ExecutionRow, server: BoxConnection, seq: number, cause: Cause): Promise<ExecutionDone> => {
    // The box may have dropped its journal after its end was recorded.
    const { done } = (await store.executions.find(row.tenantId, row.boxId, row.id)) ?? row;
    if (done) return { ...done, seq };
    const isOnItsWay = () => sent.has(row.id) || store.executions.isFollowedElsewhere(row.id);
    if (cause.code === 'journal_lost' && (await isOnItsWay())) {
      throw new CodeBoxError('unavailable', 'The execution has not reached its box yet.', { retryAfterSeconds: 1 });
    }
    return await forgotten(row, server, seq, cause);
  };

  /**
   * Resolves with the end of an execution of which its box has no record, and makes it refuse its code; undefined when the box has one.
   * Throws `unavailable` when the box does not respond, or when the code may be on its way to it.
   */
  const endIfUnknown = async (row: ExecutionRow, server: BoxConnection): Promise<ExecutionDone | undefined> => {
    try {
      await server.readExecution(row.id);
      return undefined;
    } catch (error) {
      if (!hasCode(error, 'not_found')) throw error;
    }
    return await lost(row, server, 1, journalLost);
  };

  /** Returns the recorded loss of an execution whose box exists: a box that does not stop its runs is frozen, and they are lost. */
  const recordedLoss = async (row: ExecutionRow): Promise<Cause | undefined> => {
    const { done } = (await store.executions.find(row.tenantId, row.boxId, row.id)) ?? row;
    return done?.status === 'lost' ? done.cause : undefined;
  };

  /** Yields the events of its box after `after`, and records nothing. */
  async function* events(
    row: ExecutionRow,
    server: BoxConnection,
    after: number,
    signal?: AbortSignal,
    opened?: Opened,
  ): AsyncGenerator<ExecutionEvent> {
    const over = opened?.over ?? new AbortController();
    const clock = startRunClock({ timeoutMs: timeoutOf(row), graceMs, over, freeForMs: () => freeForMs(row) });
    const source = follow<ExecutionEvent>({
      server,
      journal: `executions/${row.id}`,
      schema: executionEventSchema,
      after,
      ...(opened?.events && { opened: opened.events }),
      causeOfLoss: async () => (await causeOfRunLoss(endings, row)) ?? (await recordedLoss(row)),
      lost: (seq, cause) => lost(row, server, seq, cause),
      signal,
      overdue: over.signal,
    });
    try {
      for await (const event of source) {
        if (event.type === 'started') clock.begin();
        yield event.type === 'started' ? { ...event, execution: row.id } : event;
      }
    } finally {
      clock.stop();
    }
  }

  const untilDone = async (
    row: ExecutionRow,
    server: BoxConnection,
    after: number,
    where?: Where,
    opened?: Opened,
  ): Promise<void> => {
    const release = hold(row.id);
    try {
      for await (const event of events(row, server, after, background.signal, opened)) {
        if (event.type === 'started') where = { context: event.context, language: event.language };
        if (event.type === 'done') recorder.record(row, event, where);
      }
    } finally {
      release();
    }
  };

  return {
    events,
    send,
    forgotten,
    endIfUnknown,
    isHeld: (id: string): boolean => held.has(id),

    /** Follows an execution to its end without a reader. */
    inBackground(...follow: Parameters<typeof untilDone>): void {
      background.run('follow an execution', () => untilDone(...follow));
    },

    /** Passes events on, and makes sure that the end is recorded also when the reader leaves first. */
    async *recorded(row: ExecutionRow, server: BoxConnection, opened: Opened, signal?: AbortSignal) {
      const [release, letGo] = [activity.hold(row.boxId), hold(row.id)];
      const leave = () => opened.left.abort();
      if (signal?.aborted) leave();
      signal?.addEventListener('abort', leave, { once: true });
      let seq = 0;
      let where: Where | undefined;
      let isDone = false;
      try {
        for await (const event of events(row, server, 0, signal, opened)) {
          seq = event.seq;
          if (event.type === 'started') where = { context: event.context, language: event.language };
          if (event.type === 'done') {
            isDone = true;
            recorder.record(row, event, where);
            // No box has this end, so it is on record before a reader gets it.
            if (event.status === 'lost') await recorder.flush().catch(() => {});
          }
          yield event;
        }
      } finally {
        signal?.removeEventListener('abort', leave);
        if (!isDone) background.run('follow an execution', () => untilDone(row, server, seq, where));
        letGo();
        release();
      }
    },

    /** Resolves with whether its box should have reported the end long ago. Time in the queue does not count. */
    isOverdue: async (row: ExecutionRow): Promise<boolean> =>
      ((await freeForMs(row)) ?? 0) > patienceMs(timeoutOf(row), graceMs),
  };
};

export type Following = ReturnType<typeof createFollowing>;

/**
 * Resolves with why the box of an unfinished execution is gone; undefined when it is not. A box never hibernates during a run, so one
 * that hibernates has lost the instance of that run.
 */
export const causeOfRunLoss = async (
  endings: Pick<Endings, 'causeOfLoss'>,
  row: ExecutionRow,
): Promise<Cause | undefined> => {
  const cause = await endings.causeOfLoss(boxOf(row));
  return cause?.code === 'box_hibernated' ? { code: 'box_lost', detail: 'The instance of the box was lost.' } : cause;
};

const notStarted: Cause = {
  code: 'not_started',
  detail: 'The gateway failed before the code reached its box: none of it has run, and none will.',
};

/** Returns whether it is certain that none of its code has run or will. */
export const hasNeverStarted = ({ status, cause }: Pick<ExecutionDone | ExecutionRow, 'status' | 'cause'>): boolean =>
  status === 'lost' && cause?.code === notStarted.code;

/** Returns the last event of an execution whose end is unknown. */
export const lostEvent = (seq: number, cause: Cause): ExecutionDone => ({
  seq,
  type: 'done',
  status: 'lost',
  cause,
  durationMs: 0,
  stateLost: true,
});
