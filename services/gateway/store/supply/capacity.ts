import { and, eq, isNull, type Placeholder, sql } from 'drizzle-orm';
import { CodeBoxError } from '#contract';
import type { Database } from '../database.ts';
import { boxes } from '../schema.ts';

/** A number of instances, and the memory that they may use together. */
export interface Capacity {
  instances: number;
  memoryMb: number;
}

/** A ceiling as placeholders of a prepared statement, and as their values. */
export const bounds = { instances: sql.placeholder('most'), memoryMb: sql.placeholder('mostMb') };
export const within = ({ instances, memoryMb }: Capacity) => ({ most: instances, mostMb: memoryMb });

export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];

/**
 * Takes the lock under which all gateways decide on capacity, until the transaction ends. Returns the capacity that the instances of a site
 * use, including those that are being created or destroyed, and the part that will soon be free.
 */
export const lockCapacity = async (tx: Transaction, site: string): Promise<{ all: Capacity; ending: Capacity }> => {
  const { rows } = await tx.execute<Record<string, number>>(sql`select * from lock_capacity(${site})`);
  const { instances = 0, memory_mb = 0, ending_instances = 0, ending_memory_mb = 0 } = rows[0] ?? {};
  return {
    all: { instances, memoryMb: memory_mb },
    ending: { instances: ending_instances, memoryMb: ending_memory_mb },
  };
};

/** The capacity that is free below a ceiling; negative after the ceiling was lowered. */
export const freeBelow = (ceiling: Capacity, taken: Capacity): Capacity => ({
  instances: ceiling.instances - taken.instances,
  memoryMb: ceiling.memoryMb - taken.memoryMb,
});

/** Whether one more instance with this memory fits into the free capacity. */
export const holds = (free: Capacity, memoryMb: number): boolean => free.instances > 0 && free.memoryMb >= memoryMb;

/** Selects a box unless it has ended, and keeps it from ending until the transaction ends. */
export const livingBox = (db: Pick<Database, 'select'>, id: string | Placeholder) =>
  db
    .select({ id: boxes.id })
    .from(boxes)
    .where(and(eq(boxes.id, id), isNull(boxes.endedAt)))
    .for('share');

/** The error for a box that `livingBox` did not find. */
export const boxEnded = (): CodeBoxError => new CodeBoxError('gone', 'The box was deleted before it was ready.');
