import { and, count, eq, isNull, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import type { Database } from './database.ts';
import { boxes, instances } from './schema.ts';

/** Any number, the same in every gateway. */
const capacityLock = 7_302_113_806;

export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/** Does `task` alone among all gateways, so that counting instances and writing one more are one step. */
export const underCapacityLock = <T>(db: Database, task: (tx: Transaction) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${capacityLock})`);
    return await task(tx);
  });

/** Instances that there are or may be, also those that are being made or destroyed. */
export const countInstances = async (tx: Transaction): Promise<number> => {
  const [row] = await tx.select({ n: count() }).from(instances);
  return row?.n ?? 0;
};

/** Of these the ones whose place is about to be free. */
export const countEnding = async (tx: Transaction): Promise<number> => {
  const [row] = await tx.select({ n: count() }).from(instances).where(eq(instances.state, 'destroying'));
  return row?.n ?? 0;
};

/** Keeps a box from ending until the transaction is over; throws `gone` when it has ended already. */
export const holdLiving = async (tx: Transaction, boxId: string): Promise<void> => {
  const living = await tx
    .select({ id: boxes.id })
    .from(boxes)
    .where(and(eq(boxes.id, boxId), isNull(boxes.endedAt)))
    .for('share');
  if (living.length === 0) throw new CodeBoxError('gone', 'The box was deleted before it was ready.');
};
