import { and, asc, desc, eq, gt, inArray, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm';
import type { ChatOwner } from './chats.ts';
import { type Database, fromNow } from './database.ts';
import { uploads } from './schema.ts';

export type UploadRow = typeof uploads.$inferSelect & { sizeBytes: number };

export interface UploadQuery {
  limit: number;
  order: 'asc' | 'desc';
  /** The last file of the page before. */
  after?: UploadRow | undefined;
  purpose?: string | undefined;
}

/** How many files of one owner are stored, and of how many bytes. */
export interface UploadBounds {
  files: number;
  bytes: number;
}

const ownedBy = ({ tenant, user }: ChatOwner) =>
  and(eq(uploads.tenantId, tenant), user === null ? isNull(uploads.userId) : eq(uploads.userId, user));

const isThere = and(isNotNull(uploads.sizeBytes), gt(uploads.expiresAt, sql`now()`));

const isWhole = (row: typeof uploads.$inferSelect): row is UploadRow => row.sizeBytes !== null;

/** The files of owners, each visible to its owner only, from the end of its upload until it expires. */
export const createUploadRows = (db: Database) => ({
  /** Adds a file whose bytes are to be stored within that time. */
  async begin({ tenant, user }: ChatOwner, id: string, seconds: number): Promise<void> {
    await db.insert(uploads).values({ id, tenantId: tenant, userId: user, expiresAt: fromNow(seconds) });
  },

  /**
   * Makes a file visible whose bytes are stored. Resolves with `full` if its owner would exceed the bounds, and with undefined if the
   * time for its upload is over.
   */
  async finish(
    { tenant, user }: ChatOwner,
    { id, seconds, ...file }: Pick<UploadRow, 'id' | 'name' | 'purpose' | 'sizeBytes'> & { seconds: number },
    bounds: UploadBounds,
  ): Promise<UploadRow | 'full' | undefined> {
    return await db.transaction(async (tx) => {
      // Serialises the additions of one owner across all agents.
      await tx.execute(
        sql`select pg_advisory_xact_lock(hashtextextended(${JSON.stringify(['uploads', tenant, user])}, 0))`,
      );
      const [stored] = await tx
        .select({
          files: sql`count(*)`.mapWith(Number),
          bytes: sql`coalesce(sum(${uploads.sizeBytes}), 0)`.mapWith(Number),
        })
        .from(uploads)
        .where(and(ownedBy({ tenant, user }), isThere));
      const { files = 0, bytes = 0 } = stored ?? {};
      if (files >= bounds.files || bytes + file.sizeBytes > bounds.bytes) return 'full';
      const [row] = await tx
        .update(uploads)
        .set({ ...file, expiresAt: fromNow(seconds) })
        .where(and(eq(uploads.id, id), gt(uploads.expiresAt, sql`now()`)))
        .returning();
      return row && isWhole(row) ? row : undefined;
    });
  },

  async find(owner: ChatOwner, ids: readonly string[]): Promise<UploadRow[]> {
    const rows = await db
      .select()
      .from(uploads)
      .where(and(ownedBy(owner), isThere, inArray(uploads.id, [...ids])));
    return rows.filter(isWhole);
  },

  /** Resolves with a page of files by time, and one more if there are more. */
  async list(owner: ChatOwner, { limit, order, after, purpose }: UploadQuery): Promise<UploadRow[]> {
    const [by, beyond] = order === 'asc' ? ([asc, gt] as const) : ([desc, lt] as const);
    const { createdAt, id } = uploads;
    const behind =
      after && or(beyond(createdAt, after.createdAt), and(eq(createdAt, after.createdAt), beyond(id, after.id)));
    const rows = await db
      .select()
      .from(uploads)
      .where(and(ownedBy(owner), isThere, behind, purpose === undefined ? undefined : eq(uploads.purpose, purpose)))
      .orderBy(by(createdAt), by(id))
      .limit(limit + 1);
    return rows.filter(isWhole);
  },

  /** Lets a file expire now; resolves with whether there was such a file. */
  async expire(owner: ChatOwner, id: string): Promise<boolean> {
    const gone = await db
      .update(uploads)
      .set({ expiresAt: sql`now()` })
      .where(and(ownedBy(owner), gt(uploads.expiresAt, sql`now()`), eq(uploads.id, id)))
      .returning({ id: uploads.id });
    return gone.length > 0;
  },

  /** Some files that have expired. */
  async expired(limit: number): Promise<string[]> {
    const rows = await db
      .select({ id: uploads.id })
      .from(uploads)
      .where(lte(uploads.expiresAt, sql`now()`))
      .limit(limit);
    return rows.map(({ id }) => id);
  },

  async forget(ids: readonly string[]): Promise<void> {
    await db.delete(uploads).where(inArray(uploads.id, [...ids]));
  },
});

export type UploadRows = ReturnType<typeof createUploadRows>;
