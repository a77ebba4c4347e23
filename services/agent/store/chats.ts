import { and, desc, eq, getTableColumns, inArray, isNull, lt, notExists, or, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Approval, PageQuery } from '#contract';
import { behind, toPage } from '../../postgres/page.ts';
import { type Database, fromNow } from './database.ts';
import { markDeleted } from './deleted-files.ts';
import { chats, messages } from './schema.ts';

/** The owner of chats: one user of a tenant, or a tenant that names no users. */
export interface ChatOwner {
  tenant: string;
  user: string | null;
}

export interface NewChat {
  id: string;
  title: string | null;
  model: string | null;
  approval: Approval;
  template: string | null;
}

/** A chat, and its running answer. */
export type ChatRow = typeof chats.$inferSelect & { running: string | null };

const ownedBy = ({ tenant, user }: ChatOwner) =>
  and(eq(chats.tenantId, tenant), user === null ? isNull(chats.userId) : eq(chats.userId, user));

const differs = (column: PgColumn, value: unknown) => sql`${column} is distinct from ${sql.param(value, column)}`;

/** Chats, each visible to its owner only. */
export const createChatStore = (db: Database) => {
  /** With the running answer: there is at most one. */
  const select = () =>
    db
      .select({ ...getTableColumns(chats), running: messages.id })
      .from(chats)
      .leftJoin(messages, and(eq(messages.chatId, chats.id), eq(messages.status, 'running')));

  return {
    /** A chat that is added with `removeAfterSeconds` is removed after that time. */
    async add({ tenant, user }: ChatOwner, chat: NewChat, removeAfterSeconds?: number): Promise<ChatRow> {
      const removeAt = removeAfterSeconds === undefined ? null : fromNow(removeAfterSeconds);
      const [row] = await db
        .insert(chats)
        .values({ ...chat, removeAt, tenantId: tenant, userId: user })
        .returning();
      if (!row) throw new Error('an insert returned no row');
      return { ...row, running: null };
    },

    async find(owner: ChatOwner, id: string): Promise<ChatRow | undefined> {
      const [row] = await select().where(and(ownedBy(owner), eq(chats.id, id)));
      return row;
    },

    /** Finds a chat of any owner, for requests that carry their own proof of access. */
    async findAny(id: string): Promise<typeof chats.$inferSelect | undefined> {
      const [row] = await db.select().from(chats).where(eq(chats.id, id));
      return row;
    },

    /** A page of chats, newest first. */
    async list(owner: ChatOwner, { limit, cursor }: PageQuery) {
      const rows = await select()
        .where(and(ownedBy(owner), behind(cursor, chats.createdAt, chats.id)))
        .orderBy(desc(chats.createdAt), desc(chats.id))
        .limit(limit + 1);
      return toPage(rows, limit);
    },

    async update(id: string, changes: Partial<Pick<ChatRow, 'title' | 'model' | 'approval'>>): Promise<void> {
      await db
        .update(chats)
        .set({ ...changes, updatedAt: sql`now()` })
        .where(eq(chats.id, id));
    },

    /**
     * Records the chat's current box, and what was lost with the previous one. Does nothing when that is recorded
     * already, as two requests may notice the same box. Resolves with whether the chat still exists.
     */
    async setBox(id: string, boxId: string, boxRestoredAt: Date | null, lost: ChatRow['lost']): Promise<boolean> {
      const isOther = or(differs(chats.boxId, boxId), differs(chats.boxRestoredAt, boxRestoredAt));
      const isSet = await db.transaction(async (tx) => {
        const set = await tx
          .update(chats)
          // A loss of files that no answer has mentioned yet is more than one of variables.
          .set({
            boxId,
            boxRestoredAt,
            ...(lost && { lost: sql`case when ${chats.lost} = 'files' then 'files' else ${lost} end` }),
          })
          .where(and(eq(chats.id, id), isOther))
          .returning({ id: chats.id });
        if (set.length > 0 && lost === 'files') await markDeleted(tx, id, 'all');
        return set.length > 0;
      });
      if (isSet) return true;
      return (await db.select({ id: chats.id }).from(chats).where(eq(chats.id, id))).length > 0;
    },

    /** Schedules the removal of a chat. Resolves with its time; undefined when the chat does not exist. */
    async removeLater(owner: ChatOwner, id: string, seconds: number): Promise<Date | undefined> {
      const [row] = await db
        .update(chats)
        .set({ removeAt: fromNow(seconds) })
        .where(and(ownedBy(owner), eq(chats.id, id)))
        .returning({ removeAt: chats.removeAt });
      return row?.removeAt ?? undefined;
    },

    /** Removes some chats whose time has come, except those with a running answer; resolves with their number. */
    async removeDue(limit: number): Promise<number> {
      const answered = db
        .select({ one: sql`1` })
        .from(messages)
        .where(and(eq(messages.chatId, chats.id), eq(messages.status, 'running')));
      const due = db
        .select({ id: chats.id })
        .from(chats)
        .where(and(lt(chats.removeAt, sql`now()`), notExists(answered)))
        .limit(limit);
      return (await db.delete(chats).where(inArray(chats.id, due)).returning({ id: chats.id })).length;
    },

    /** Removes a chat without messages; resolves with it if it was removed. */
    async removeEmpty(owner: ChatOwner, id: string): Promise<typeof chats.$inferSelect | undefined> {
      const isIt = and(ownedBy(owner), eq(chats.id, id));
      return await db.transaction(async (tx) => {
        // A question that is being inserted holds the row, so the query below sees it.
        await tx.select({ id: chats.id }).from(chats).where(isIt).for('update');
        const ofChat = tx.select({ one: sql`1` }).from(messages).where(eq(messages.chatId, chats.id));
        const [row] = await tx
          .delete(chats)
          .where(and(isIt, notExists(ofChat)))
          .returning();
        return row;
      });
    },

    /** Removes a chat with its messages. */
    async remove(owner: ChatOwner, id: string): Promise<void> {
      await db.delete(chats).where(and(ownedBy(owner), eq(chats.id, id)));
    },
  };
};

export type ChatStore = ReturnType<typeof createChatStore>;
