import { and, asc, desc, eq, gt, gte, inArray, isNull, lt, or, sql } from 'drizzle-orm';
import type { Page } from '#contract';
import { readCursor, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { boxes } from '../schema.ts';

type BoxRow = typeof boxes.$inferSelect;

/** The states of boxes that have not ended. */
export const living = ['creating', 'ready', 'paused', 'hibernated'] as const;
/** Includes `endedAt is null` so that the partial indexes on living boxes apply. */
export const isLiving = and(isNull(boxes.endedAt), inArray(boxes.state, living));

/** The conditions for the boxes of a list, all of which have to hold, and their order. */
export interface BoxFilter {
  limit: number;
  cursor?: string | undefined;
  user?: string | undefined;
  /** By default those of boxes that have not ended. */
  states?: readonly BoxRow['state'][] | undefined;
  template?: string | undefined;
  /** Each key has to have this value. */
  metadata?: Record<string, string> | undefined;
  /** Boxes that have all of these values are left out. */
  except?: Record<string, string> | undefined;
  createdAfter?: Date | undefined;
  /** By time of creation; `desc` by default. A cursor is for the order of its page. */
  order?: 'asc' | 'desc' | undefined;
}

/** Returns a page of the boxes of a tenant. */
export const listBoxes = async (
  db: Pick<Database, 'select'>,
  tenantId: string,
  { limit, states = living, order = 'desc', ...filter }: BoxFilter,
): Promise<Page<BoxRow>> => {
  const cursor = readCursor(filter.cursor);
  const [direction, isBehind] = order === 'desc' ? [desc, lt] : [asc, gt];
  const areLiving = states.every((state) => living.some((one) => one === state));
  const rows = await db
    .select()
    .from(boxes)
    .where(
      and(
        eq(boxes.tenantId, tenantId),
        inArray(boxes.state, [...states]),
        areLiving ? isLiving : undefined,
        filter.user === undefined ? undefined : eq(boxes.userId, filter.user),
        filter.template === undefined ? undefined : eq(boxes.template, filter.template),
        filter.metadata && sql`${boxes.metadata} @> ${JSON.stringify(filter.metadata)}::jsonb`,
        filter.except && sql`not ${boxes.metadata} @> ${JSON.stringify(filter.except)}::jsonb`,
        filter.createdAfter && gte(boxes.createdAt, filter.createdAfter),
        cursor &&
          or(isBehind(boxes.createdAt, cursor.at), and(eq(boxes.createdAt, cursor.at), isBehind(boxes.id, cursor.id))),
      ),
    )
    .orderBy(direction(boxes.createdAt), direction(boxes.id))
    .limit(limit + 1);
  return toPage(rows, limit);
};
