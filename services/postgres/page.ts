import { and, eq, lt, or, type SQL } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { CodeBoxError, type Page } from '#contract';

interface Sortable {
  createdAt: Date;
  id: string;
}

/** PostgreSQL supports fewer years than a JavaScript date. */
const earliest = new Date('2000-01-01T00:00:00Z');
const latest = new Date('9999-12-31T23:59:59.999Z');

/** Decodes where a page starts; throws `invalid_request` for a cursor that this gateway did not create. */
export const readCursor = (cursor: string | undefined): { at: Date; id: string } | undefined => {
  if (cursor === undefined) return undefined;
  const [milliseconds = '', id] = Buffer.from(cursor, 'base64url').toString().split(' ');
  const at = new Date(/^\d{1,15}$/.test(milliseconds) ? Number(milliseconds) : Number.NaN);
  if (!id || !(at >= earliest && at <= latest) || id.includes('\0')) throw foreignCursor();
  return { at, id };
};

/** The error for a cursor of another list. */
export const foreignCursor = () =>
  new CodeBoxError('invalid_request', 'The cursor is not one of this list.', {
    errors: [{ pointer: '/query/cursor', detail: 'is not a cursor of this list' }],
  });

/** The condition for rows after a cursor, in the order that `toPage` expects. */
export const behind = (cursor: string | undefined, createdAt: PgColumn, id: PgColumn): SQL | undefined => {
  const place = readCursor(cursor);
  return place && or(lt(createdAt, place.at), and(eq(createdAt, place.at), lt(id, place.id)));
};

/**
 * Turns up to `limit` + 1 rows into a page and the cursor of the next. Rows are ordered by (createdAt, id), descending.
 */
export const toPage = <T extends Sortable>(rows: T[], limit: number): Page<T> => {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last ? cursorAfter(last) : null };
};

/** The cursor of the page that begins after a row. */
export const cursorAfter = ({ createdAt, id }: Sortable): string =>
  Buffer.from(`${createdAt.getTime()} ${id}`).toString('base64url');
