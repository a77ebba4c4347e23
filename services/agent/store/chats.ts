import { and, desc, eq, getTableColumns, inArray, isNull, lt, notExists, or, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { Approval, PageQuery } from '#contract';
import { behind, toPage } from '../../postgres/page.ts';
import { type Database, fromNow } from './database.ts';
import { markGone } from './gone-files.ts';
import { chats, messages } from './schema.ts';

/** Whose chats are meant: of one user of a tenant, or of a tenant that names none. */
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

/** A chat, and the answer that is being made. */
export type ChatRow = typeof chats.$inferSelect & { running: string | null };

const ownedBy = ({ tenant, user }: ChatOwner) =>
  and(eq(chats.tenantId, tenant), user === null ? isNull(chats.userId) : eq(chats.userId, user));

const differs = (column: PgColumn, value: unknown) => sql`${column} is distinct from ${sql.param(value, column)}`;

/** Chats, each seen by its owner only. */
export const createChatStore = (db: Database) => {
  /** With the answer that is being made: at most one. */
  const select = () =>
    db
      .select({ ...getTableColumns(chats), running: messages.id })
      .from(chats)
      .leftJoin(messages, and(eq(messages.chatId, chats.id), eq(messages.status, 'running')));

  return {
    /** One that is added with `removeAfterSeconds` goes by itself then. */
    async add({ tenant, user }: ChatOwner, chat: NewChat, removeAfterSeconds?: number): Promise<ChatRow> {
      const removeAt = removeAfterSeconds === undefined ? null : fromNow(removeAfterSeconds);
      const [row] = await db
        .insert(chats)
        .values({ ...chat, removeAt, tenantId: tenant, userId: user })
        .returning();
      if (!row) throw new Error('an insert answered no row');
      return { ...row, running: null };
    },

    async find(owner: ChatOwner, id: string): Promise<ChatRow | undefined> {
      const [row] = await select().where(and(ownedBy(owner), eq(chats.id, id)));
      return row;
    },

    /** Whoever owns it: for what shows by itself that it may be read. */
    async findAny(id: string): Promise<typeof chats.$inferSelect | undefined> {
      const [row] = await db.select().from(chats).where(eq(chats.id, id));
      return row;
    },

    /** A page of them, the newest first. */
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
     * Notes the box that it has now, and what was lost with the one before, if anything was. Nothing when it is noted already: two
     * requests may come upon the same one. Answers whether the chat is still there.
     */
    async setBox(id: string, boxId: string, boxRestoredAt: Date | null, lost: ChatRow['lost']): Promise<boolean> {
      const isOther = or(differs(chats.boxId, boxId), differs(chats.boxRestoredAt, boxRestoredAt));
      const isSet = await db.transaction(async (tx) => {
        const set = await tx
          .update(chats)
          .set({ boxId, boxRestoredAt, ...(lost && { lost }) })
          .where(and(eq(chats.id, id), isOther))
          .returning({ id: chats.id });
        if (set.length > 0 && lost === 'files') await markGone(tx, id, 'all');
        return set.length > 0;
      });
      if (isSet) return true;
      return (await db.select({ id: chats.id }).from(chats).where(eq(chats.id, id))).length > 0;
    },

    /** Has it go by itself so long from now. Answers when that is; undefined when it is gone. */
    async removeLater(owner: ChatOwner, id: string, seconds: number): Promise<Date | undefined> {
      const [row] = await db
        .update(chats)
        .set({ removeAt: fromNow(seconds) })
        .where(and(ownedBy(owner), eq(chats.id, id)))
        .returning({ removeAt: chats.removeAt });
      return row?.removeAt ?? undefined;
    },

    /** Removes some of those whose time has come, but none that is being answered; answers how many. */
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

    /** Removes one in which nothing was asked; answers what it was, if it was removed. */
    async removeUnasked(owner: ChatOwner, id: string): Promise<typeof chats.$inferSelect | undefined> {
      const isIt = and(ownedBy(owner), eq(chats.id, id));
      return await db.transaction(async (tx) => {
        // A question that is just being noted holds the row: what is asked below sees it.
        await tx.select({ id: chats.id }).from(chats).where(isIt).for('update');
        const asked = tx.select({ one: sql`1` }).from(messages).where(eq(messages.chatId, chats.id));
        const [row] = await tx
          .delete(chats)
          .where(and(isIt, notExists(asked)))
          .returning();
        return row;
      });
    },

    /** Removes it with its messages. */
    async remove(owner: ChatOwner, id: string): Promise<void> {
      await db.delete(chats).where(and(ownedBy(owner), eq(chats.id, id)));
    },
  };
};

export type ChatStore = ReturnType<typeof createChatStore>;
