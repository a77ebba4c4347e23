import type { Background } from '../../../waiting/background.ts';
import type { Store } from '../../store/store.ts';

export interface PurgesOptions {
  store: Pick<
    Store,
    | 'executions'
    | 'exports'
    | 'boxes'
    | 'idempotency'
    | 'tickets'
    | 'links'
    | 'deliveries'
    | 'portSessions'
    | 'gateways'
    | 'usage'
  >;
  background: Background;
}

interface Purge {
  what: string;
  everyMs: number;
  /** Deletes up to `limit` rows, and resolves with their number. */
  some: (limit: number) => Promise<number>;
  /** How many rows one statement deletes, so that it stays short. */
  limit: number;
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
const keepEndedSeconds = 7 * 86_400;
const keepDeliveriesSeconds = 7 * 86_400;
const keepUsageDays = 400;
const keepKeysSeconds = 86_400;
/** The most statements for one kind of row; the next purge deletes the rest. */
const maxStatements = 50;

/**
 * Deletes rows that have expired: each kind by itself, so that a failure does not hold up the others, and in short statements, so that
 * none reaches the statement timeout.
 */
export const createPurges = ({ store, background }: PurgesOptions) => {
  const purges: readonly Purge[] = [
    // These come before their boxes: one that was busy for weeks has more executions than one statement deletes.
    {
      what: 'executions',
      everyMs: minuteMs,
      limit: 1000,
      some: (limit) => store.executions.purgeEnded(keepEndedSeconds, limit),
    },
    { what: 'boxes', everyMs: minuteMs, limit: 1000, some: (limit) => store.boxes.purgeEnded(keepEndedSeconds, limit) },
    {
      what: 'exports',
      everyMs: minuteMs,
      limit: 100,
      some: (limit) => store.exports.purge(keepEndedSeconds, limit),
    },
    { what: 'keys', everyMs: minuteMs, limit: 1000, some: (limit) => store.idempotency.purge(keepKeysSeconds, limit) },
    { what: 'tickets', everyMs: minuteMs, limit: 1000, some: store.tickets.purge },
    { what: 'links', everyMs: minuteMs, limit: 1000, some: store.links.purge },
    { what: 'port sessions', everyMs: minuteMs, limit: 1000, some: store.portSessions.purge },
    {
      what: 'deliveries',
      everyMs: minuteMs,
      limit: 1000,
      some: (limit) => store.deliveries.purge(keepDeliveriesSeconds, limit),
    },
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
      await background.attempt(`purge old ${one.what}`, () => purge(one));
    }
  };

  return {
    /** Begins the purges that are due, without holding up the other sweeps. */
    sweep: background.oneAtATime('purge old rows', work),
  };
};

export type Purges = ReturnType<typeof createPurges>;
