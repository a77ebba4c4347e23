import { eq, inArray, notExists, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { blobs, chats } from './schema.ts';

/** Which blobs there are, and of which chat. */
export const createBlobRows = (db: Database) => ({
  async add(id: string, chatId: string): Promise<void> {
    await db.insert(blobs).values({ id, chatId });
  },

  async has(id: string): Promise<boolean> {
    return (await db.$count(blobs, eq(blobs.id, id))) > 0;
  },

  async forget(ids: readonly string[]): Promise<void> {
    await db.delete(blobs).where(inArray(blobs.id, [...ids]));
  },

  /** Some of those whose chat is gone. */
  async abandoned(limit: number): Promise<string[]> {
    const rows = await db
      .select({ id: blobs.id })
      .from(blobs)
      .where(notExists(db.select({ one: sql`1` }).from(chats).where(eq(chats.id, blobs.chatId))))
      .limit(limit);
    return rows.map(({ id }) => id);
  },
});

export type BlobRows = ReturnType<typeof createBlobRows>;
