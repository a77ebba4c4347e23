import { and, eq, inArray, isNull, notExists, sql } from 'drizzle-orm';
import type { Database } from './database.ts';
import { blobs, chats } from './schema.ts';

/** How many bytes may be kept. */
export interface KeptBounds {
  chatBytes: number;
  /** Limit for all chats of one owner. */
  ownerBytes: number;
}

/** The blobs of each chat. */
export const createBlobRows = (db: Database) => ({
  /** Adds a blob, or adds nothing and returns the limit that it would exceed. */
  async add(
    blob: { id: string; chatId: string; sizeBytes: number },
    { chatBytes, ownerBytes }: KeptBounds,
  ): Promise<'chat' | 'owner' | undefined> {
    return await db.transaction(async (tx) => {
      const [chat] = await tx.select().from(chats).where(eq(chats.id, blob.chatId));
      if (chat) {
        const { tenantId, userId } = chat;
        // Serialises the additions of one owner across all agents.
        await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${JSON.stringify([tenantId, userId])}, 0))`);
        const sumOf = (of = sql``) => sql`coalesce(sum(${blobs.sizeBytes}) ${of}, 0)`.mapWith(Number);
        const [kept] = await tx
          .select({ chat: sumOf(sql`filter (where ${blobs.chatId} = ${blob.chatId})`), owner: sumOf() })
          .from(blobs)
          .innerJoin(chats, eq(chats.id, blobs.chatId))
          .where(and(eq(chats.tenantId, tenantId), userId === null ? isNull(chats.userId) : eq(chats.userId, userId)));
        if ((kept?.chat ?? 0) + blob.sizeBytes > chatBytes) return 'chat';
        if ((kept?.owner ?? 0) + blob.sizeBytes > ownerBytes) return 'owner';
      }
      await tx.insert(blobs).values(blob);
      return undefined;
    });
  },

  async has(id: string): Promise<boolean> {
    return (await db.$count(blobs, eq(blobs.id, id))) > 0;
  },

  async forget(ids: readonly string[]): Promise<void> {
    await db.delete(blobs).where(inArray(blobs.id, [...ids]));
  },

  /** Some blobs whose chat was removed. */
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
