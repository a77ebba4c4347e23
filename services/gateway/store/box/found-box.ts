import { and, eq, ne, sql } from 'drizzle-orm';
import { boxes, instances } from '../schema.ts';
import type { InstanceRow } from './instances.ts';

export type BoxRow = typeof boxes.$inferSelect;

/** A box with its current instance. */
export interface FoundBox {
  box: BoxRow;
  instance: InstanceRow | null;
  /** Whether its idle time has passed, so that it may be ended at any moment. */
  isDue: boolean;
}

export const isDue = sql<boolean>`${boxes.lastActiveAt} + make_interval(secs => ${boxes.idleSeconds}) <= now()`;

/** Condition of a join of boxes with their instances. */
export const isCurrent = and(eq(instances.boxId, boxes.id), ne(instances.state, 'destroying'));

/** Of two instances the running one is the box's: the other one may never become ready. */
export const runningFirst = sql`${instances.state} = 'running' desc`;
