import { and, desc, eq, gt, isNull, lt, sql } from 'drizzle-orm';
import type { Page, PageQuery } from '#contract';
import { behind, toPage } from '../../../postgres/page.ts';
import type { Database } from '../database.ts';
import { deleteSome } from '../delete-some.ts';
import { boxes } from '../schema.ts';
import { links } from '../schema-tokens.ts';

export type LinkRow = typeof links.$inferSelect;

/** Links to files, by the hash of their token. Times are those of the database's clock. */
export const createLinkStore = (db: Database) => ({
  /** Inserts a link that is valid for so many seconds, unless `most` of its box are valid: then undefined is returned. */
  async insert(
    link: Omit<typeof links.$inferInsert, 'expiresAt'>,
    seconds: number,
    most: number,
  ): Promise<LinkRow | undefined> {
    return await db.transaction(async (tx) => {
      // Concurrent requests for a box count one after the other.
      await tx.select({ id: boxes.id }).from(boxes).where(eq(boxes.id, link.boxId)).for('no key update');
      const valid = await tx.$count(links, and(eq(links.boxId, link.boxId), gt(links.expiresAt, sql`now()`)));
      if (valid >= most) return undefined;
      const [row] = await tx
        .insert(links)
        .values({ ...link, expiresAt: sql`now() + make_interval(secs => ${seconds})` })
        .returning();
      return row;
    });
  },

  /** Returns a link, also one that has expired or was used. */
  async find(hash: string): Promise<(LinkRow & { isExpired: boolean }) | undefined> {
    const [row] = await db
      .select({ link: links, isExpired: sql<boolean>`${links.expiresAt} <= now()` })
      .from(links)
      .where(eq(links.hash, hash));
    return row && { ...row.link, isExpired: row.isExpired };
  },

  /** Marks a link as used; of concurrent calls all but one return false. */
  async use(id: string): Promise<boolean> {
    const { rowCount } = await db
      .update(links)
      .set({ usedAt: sql`now()` })
      .where(and(eq(links.id, id), isNull(links.usedAt), gt(links.expiresAt, sql`now()`)));
    return rowCount === 1;
  },

  /** Marks a link as unused again: its use had no effect. */
  async release(id: string): Promise<void> {
    await db.update(links).set({ usedAt: null }).where(eq(links.id, id));
  },

  async list(boxId: string, query: PageQuery): Promise<Page<LinkRow>> {
    const rows = await db
      .select()
      .from(links)
      .where(and(eq(links.boxId, boxId), behind(query.cursor, links.createdAt, links.id)))
      .orderBy(desc(links.createdAt), desc(links.id))
      .limit(query.limit + 1);
    return toPage(rows, query.limit);
  },

  /** Returns whether there was such a link of this box. */
  async remove(boxId: string, id: string): Promise<boolean> {
    const { rowCount } = await db.delete(links).where(and(eq(links.boxId, boxId), eq(links.id, id)));
    return rowCount === 1;
  },

  /** Deletes up to `limit` links that expired a day ago; returns their number. Until then their use says that they have expired. */
  purge: (limit: number): Promise<number> =>
    deleteSome(db, links, lt(links.expiresAt, sql`now() - interval '1 day'`), limit),
});

export type LinkStore = ReturnType<typeof createLinkStore>;
