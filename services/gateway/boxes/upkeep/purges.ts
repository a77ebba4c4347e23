import type { Background } from '../../../waiting/background.ts';
import type { Store } from '../../store/store.ts';

export interface PurgesOptions {
  store: Pick<Store, 'executions' | 'boxes' | 'idempotency' | 'tickets' | 'portSessions' | 'gateways' | 'usage'>;
  background: Background;
}

interface Purge {
  what: string;
  everyMs: number;
  /** Forgets up to `limit`, and answers how many. */
  some: (limit: number) => Promise<number>;
  /** How many at once: a statement is to be short. */
  limit: number;
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
const keepEndedSeconds = 7 * 86_400;
const keepUsageDays = 400;
const keepKeysSeconds = 86_400;
/** What is left then goes the next time. */
const maxStatements = 50;

/**
 * Forgets what nobody needs any more. Each kind by itself, so that one that fails keeps none of the others back, and in short
 * statements, so that none of them takes longer than a statement may.
 */
export const createPurges = ({ store, background }: PurgesOptions) => {
  const purges: readonly Purge[] = [
    // Before the boxes themselves: one that was busy for weeks has more of them than go in one statement.
    {
      what: 'executions',
      everyMs: minuteMs,
      limit: 1000,
      some: (limit) => store.executions.purgeEnded(keepEndedSeconds, limit),
    },
    { what: 'boxes', everyMs: minuteMs, limit: 1000, some: (limit) => store.boxes.purgeEnded(keepEndedSeconds, limit) },
    { what: 'keys', everyMs: minuteMs, limit: 1000, some: (limit) => store.idempotency.purge(keepKeysSeconds, limit) },
    { what: 'tickets', everyMs: minuteMs, limit: 1000, some: store.tickets.purge },
    { what: 'port sessions', everyMs: minuteMs, limit: 1000, some: store.portSessions.purge },
    { what: 'gateways', everyMs: minuteMs, limit: 1000, some: store.gateways.purge },
    { what: 'usage', everyMs: hourMs, limit: 1000, some: (limit) => store.usage.purge(keepUsageDays, limit) },
  ];
  const doneAt = new Map<Purge, number>();

  const purge = async ({ some, limit }: Purge) => {
    for (let statements = 0; statements < maxStatements; statements++) if ((await some(limit)) < limit) return;
  };

  const work = async () => {
    for (const one of purges) {
      if (performance.now() - (doneAt.get(one) ?? Number.NEGATIVE_INFINITY) < one.everyMs) continue;
      doneAt.set(one, performance.now());
      await background.attempt(`forget old ${one.what}`, () => purge(one));
    }
  };

  return {
    /** Begins with those whose time it is, beside the sweeps. */
    sweep: background.oneAtATime('forget what is old', work),
  };
};

export type Purges = ReturnType<typeof createPurges>;
