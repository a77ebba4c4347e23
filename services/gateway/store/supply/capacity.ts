import { and, eq, isNull, type SQLWrapper, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import type { Database } from '../database.ts';
import { boxes, instances } from '../schema.ts';

/** How many instances, and what they may use of memory together. */
export interface Capacity {
  instances: number;
  memoryMb: number;
}

/** Any number, the same in every gateway. */
const capacityLock = 7_302_113_806;

export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/** Does `task` alone among all gateways, so that to look how much is taken and to take more are one step. */
export const underCapacityLock = <T>(db: Database, task: (tx: Transaction) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${capacityLock})`);
    return await task(tx);
  });

/** Of the built-in template. */
const defaultMb = 1024;

/**
 * What an instance may use of memory, joined with its box, if it has one. A gateway of the version before, which may serve the same
 * database, writes no memory of those that it makes, and leaves that of those that it makes larger.
 */
export const memoryOf = (limits: SQLWrapper = boxes.limits) =>
  sql<number>`coalesce(greatest(nullif(${instances.memoryMb}, 0), (${limits} ->> 'memoryMb')::int), ${defaultMb}::int)`;

/** What the instances of a site take that there are or may be, also those that are being made or destroyed; of it, what is about to be free. */
export const readTaken = async (tx: Transaction, site: string): Promise<{ all: Capacity; ending: Capacity }> => {
  const isEnding = sql`filter (where ${eq(instances.state, 'destroying')})`;
  const [row] = await tx
    .select({
      instances: sql<number>`count(*)::int`,
      memoryMb: sql<number>`coalesce(sum(${memoryOf()}), 0)::float8`,
      endingInstances: sql<number>`(count(*) ${isEnding})::int`,
      endingMemoryMb: sql<number>`coalesce(sum(${memoryOf()}) ${isEnding}, 0)::float8`,
    })
    .from(instances)
    .leftJoin(boxes, eq(boxes.id, instances.boxId))
    .where(eq(instances.site, site));
  if (!row) throw new Error('a count returned no row');
  return {
    all: { instances: row.instances, memoryMb: row.memoryMb },
    ending: { instances: row.endingInstances, memoryMb: row.endingMemoryMb },
  };
};

/** What is free below a ceiling; less than nothing when that was lowered. */
export const freeBelow = (ceiling: Capacity, taken: Capacity): Capacity => ({
  instances: ceiling.instances - taken.instances,
  memoryMb: ceiling.memoryMb - taken.memoryMb,
});

/** Whether one more instance with so much memory fits into what is free. */
export const holds = (free: Capacity, memoryMb: number): boolean => free.instances > 0 && free.memoryMb >= memoryMb;

/** Keeps a box from ending until the transaction is over; throws `gone` when it has ended already. */
export const holdLiving = async (tx: Transaction, boxId: string): Promise<void> => {
  const living = await tx
    .select({ id: boxes.id })
    .from(boxes)
    .where(and(eq(boxes.id, boxId), isNull(boxes.endedAt)))
    .for('share');
  if (living.length === 0) throw new CodeBoxError('gone', 'The box was deleted before it was ready.');
};
