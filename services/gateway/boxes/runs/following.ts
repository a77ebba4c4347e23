import {
  type Cause,
  CodeBoxError,
  type Context,
  type ExecutionDone,
  type ExecutionEvent,
  executionEventSchema,
} from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { boxOf } from '../box-ref.ts';
import type { Activity } from '../life/activity.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import type { Recorder } from '../life/recorder.ts';
import { follow } from './journal.ts';
import { patienceMs, startRunClock } from './run-clock.ts';

export interface FollowingOptions {
  store: Pick<Store, 'executions'>;
  lifecycle: Lifecycle;
  activity: Activity;
  background: Background;
  recorder: Recorder;
  /** What a box may take to tell of the end of a run, beside all that the run itself may take. */
  graceMs: number;
}

/** What a box has begun to answer, if it did. */
export interface Opened {
  events?: AsyncIterable<unknown>;
  /** Ends that answer when it has to be given up on. */
  over: AbortController;
  /** Ends it when its reader leaves. */
  left: AbortController;
}

/** Where an execution runs, once that is known. */
export interface Where {
  context: string;
  language: string;
}

/** For executions of which no time is on record. */
const maxTimeoutMs = 3_600_000;

/** Reads what boxes tell of executions, and sees to it that the ends of those of this gateway are recorded. */
export const createFollowing = (options: FollowingOptions) => {
  const { store, lifecycle, activity, background, recorder, graceMs } = options;
  const held = new Map<string, number>();
  const sent = new Set<string>();
  const timeoutOf = (row: ExecutionRow): number => row.timeoutMs ?? maxTimeoutMs;

  /** While the answer has not been called, its end is looked after here. */
  const hold = (id: string): (() => void) => {
    held.set(id, (held.get(id) ?? 0) + 1);
    return () => {
      const left = (held.get(id) ?? 1) - 1;
      if (left > 0) held.set(id, left);
      else held.delete(id);
    };
  };

  /** While the answer has not been called, its code is on its way: that its box does not know it tells nothing yet. */
  const send = (id: string): (() => void) => {
    const release = hold(id);
    sent.add(id);
    return () => {
      sent.delete(id);
      release();
    };
  };

  /** Whether its code has never come to its box and never will: what is still on its way is refused there. */
  const isRefused = async (row: ExecutionRow, server: BoxConnection): Promise<boolean> => {
    const never = await server.refuseExecution(row.id).then(
      () => true,
      () => false,
    );
    if (!never) return false;
    // What embodied the box before this one may have run it.
    const { restoredAt } = await lifecycle.find(boxOf(row));
    return restoredAt === null || restoredAt < row.createdAt;
  };

  /** The end of an execution that its box does not know: then the context, if it is still there, has its variables. */
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
    // Of a box that does not answer the variables count as gone.
    const contexts = await server.contexts().catch(() => []);
    return { ...done, stateLost: !contexts.some(isItsOwn) };
  };

  /** How an execution ended that its box does not know. */
  const lost = async (row: ExecutionRow, server: BoxConnection, seq: number, cause: Cause): Promise<ExecutionDone> => {
    // Its outputs may be forgotten while its end is on record.
    const { done } = (await store.executions.find(row.tenantId, row.boxId, row.id)) ?? row;
    if (done) return { ...done, seq };
    const isOnItsWay = () => sent.has(row.id) || store.executions.isFollowedElsewhere(row.id);
    if (cause.code === 'journal_lost' && (await isOnItsWay())) {
      throw new CodeBoxError('unavailable', 'The execution has not reached its box yet.', { retryAfterSeconds: 1 });
    }
    return await forgotten(row, server, seq, cause);
  };

  /** Why it is lost already, although its box is there: that was frozen because it did not end it. */
  const lossOf = async (row: ExecutionRow): Promise<Cause | undefined> => {
    const { done } = (await store.executions.find(row.tenantId, row.boxId, row.id)) ?? row;
    return done?.status === 'lost' ? done.cause : undefined;
  };

  /** The events after `after` as its box has them; changes nothing. */
  async function* events(
    row: ExecutionRow,
    server: BoxConnection,
    after: number,
    signal?: AbortSignal,
    opened?: Opened,
  ): AsyncGenerator<ExecutionEvent> {
    const over = opened?.over ?? new AbortController();
    const freeForMs = () => store.executions.freeForMs(row);
    const clock = startRunClock({ timeoutMs: timeoutOf(row), graceMs, over, freeForMs });
    const source = follow<ExecutionEvent>({
      server,
      journal: `executions/${row.id}`,
      schema: executionEventSchema,
      after,
      ...(opened?.events && { opened: opened.events }),
      whyGone: async () => (await whyRunGone(lifecycle, row)) ?? (await lossOf(row)),
      lost: (seq, cause) => lost(row, server, seq, cause),
      signal,
      overdue: over.signal,
    });
    try {
      for await (const event of source) {
        if (event.type === 'started') clock.begin();
        yield event;
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
    isHeld: (id: string): boolean => held.has(id),

    /** Follows it behind its requests, to its end. */
    inBackground(...follow: Parameters<typeof untilDone>): void {
      background.run('follow an execution', () => untilDone(...follow));
    },

    /** Passes events on and sees to it that the end is recorded, also when the reader leaves first. */
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
            // No box can be asked of this end: whoever has heard of it finds it on record.
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

    /** Whether its box has had more time than it needs to tell of its end, the time in the queue aside. */
    isOverdue: async (row: ExecutionRow): Promise<boolean> =>
      ((await store.executions.freeForMs(row)) ?? 0) > patienceMs(timeoutOf(row), graceMs),
  };
};

export type Following = ReturnType<typeof createFollowing>;

/**
 * Why the box of an execution that has not ended is gone; undefined when it is not. A box is put aside only when nothing runs in it:
 * over a run it hibernates because its instance was lost.
 */
export const whyRunGone = async (
  lifecycle: Pick<Lifecycle, 'whyGone'>,
  row: ExecutionRow,
): Promise<Cause | undefined> => {
  const cause = await lifecycle.whyGone(boxOf(row));
  return cause?.code === 'box_hibernated' ? { code: 'box_lost', detail: 'The instance of the box was lost.' } : cause;
};

const notStarted: Cause = {
  code: 'not_started',
  detail: 'The gateway failed before the code reached its box: none of it has run, and none will.',
};

/** Whether it is certain that none of its code has run or will. */
export const hasNeverStarted = ({ status, cause }: Pick<ExecutionRow, 'status' | 'cause'>): boolean =>
  status === 'lost' && cause?.code === notStarted.code;

/** The end of an execution of which nobody knows how it ended. */
export const lostEvent = (seq: number, cause: Cause): ExecutionDone => ({
  seq,
  type: 'done',
  status: 'lost',
  cause,
  durationMs: 0,
  stateLost: true,
});
