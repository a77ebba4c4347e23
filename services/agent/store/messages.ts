import { and, asc, desc, eq, getTableColumns, gt, inArray, lt, ne, sql } from 'drizzle-orm';
import type { PageQuery } from '#contract';
import { CodeBoxError, toPlain } from '#contract';
import { foreignCursor } from '../../postgres/page.ts';
import type { ModelMessage } from '../models/model.ts';
import { type Database, fromNow } from './database.ts';
import { type Gone, markGone } from './gone-files.ts';
import { toPlainJson } from './plain-json.ts';
import { chats, messages } from './schema.ts';
import type { Asked, StoredFile } from './stored.ts';

export type MessageRow = typeof messages.$inferSelect;

type Lost = NonNullable<typeof chats.$inferSelect.lost>;

/** A question, and the answer that is begun with it. */
export interface NewAnswer {
  chat: string;
  question: { id: string; content: string; files: StoredFile[] };
  /** What the model is asked is kept with it, even when nothing comes of it. */
  answer: { id: string; model: string | null; history: ModelMessage[] };
  /** Of the chat, when it has none yet. */
  title: string;
  agent: string;
  leaseSeconds: number;
}

/** How an answer has come out. */
export interface AnswerEnd
  extends Pick<MessageRow, 'status' | 'content' | 'parts' | 'files' | 'rounds' | 'lastSeq' | 'error' | 'history'> {
  tokens: { input: number; output: number } | null;
}

const isRunning = eq(messages.status, 'running');
/** What the model is given again is bounded once more by its tokens. */
const maxAnswersBefore = 100;
/** Of the parts of the messages of one page, as they are stored. */
const pageBytes = 4 * 1024 * 1024;

/** Questions and answers. Whose chat they are in is for the caller to have asked. */
export const createMessageStore = (db: Database) => ({
  /** Both rows or none, and the title; throws `conflict` while the chat has an answer that is being made. */
  async begin({ chat, question, answer, title, agent, leaseSeconds }: NewAnswer): Promise<void> {
    const inChat = { chatId: chat };
    try {
      await db.transaction(async (tx) => {
        await tx.insert(messages).values(toPlainJson({ ...inChat, ...question, role: 'user', status: 'ok' }));
        const lease = { agentId: agent, leaseUntil: fromNow(leaseSeconds) };
        const made = { ...toPlainJson(answer), ...lease, questionId: question.id };
        await tx.insert(messages).values({ ...inChat, ...made, role: 'assistant', status: 'running' });
        await tx
          .update(chats)
          .set({ title: sql`coalesce(${chats.title}, ${toPlain(title)})`, updatedAt: sql`now()` })
          .where(eq(chats.id, chat));
      });
    } catch (cause) {
      throw toRefusal(cause);
    }
  },

  /** What there is of an answer until now. */
  async save(id: string, agent: string, now: Pick<MessageRow, 'content' | 'parts' | 'files'>): Promise<void> {
    await db
      .update(messages)
      .set(toPlainJson(now))
      .where(and(eq(messages.id, id), eq(messages.agentId, agent), isRunning));
  },

  /**
   * What its chat has to tell of its box, told by this answer, whose rows hold from then on what `tell` makes of it: it is told once,
   * whatever becomes of the answer. Null when there is nothing to tell, or the answer has ended.
   */
  async takeLost(
    { chat, message, agent }: { chat: string; message: string; agent: string },
    tell: (lost: Lost) => Pick<MessageRow, 'parts' | 'history'>,
  ): Promise<Lost | null> {
    return await db.transaction(async (tx) => {
      const [row] = await tx.select({ lost: chats.lost }).from(chats).where(eq(chats.id, chat)).for('update');
      if (!row?.lost) return null;
      const { lost } = row;
      const told = await tx
        .update(messages)
        .set(toPlainJson(tell(lost)))
        .where(and(eq(messages.id, message), eq(messages.agentId, agent), isRunning))
        .returning({ id: messages.id });
      if (told.length === 0) return null;
      await tx.update(chats).set({ lost: null }).where(eq(chats.id, chat));
      return lost;
    });
  },

  /** Marks what was told of these files until now. */
  markGone: (chat: string, gone: Gone): Promise<void> => markGone(db, chat, gone),

  /** Answers false when it has ended already, or is gone with its chat. */
  async end(id: string, agent: string, { tokens, ...end }: AnswerEnd): Promise<boolean> {
    return await db.transaction(async (tx) => {
      const [row] = await tx
        .update(messages)
        .set({
          ...toPlainJson(end),
          inputTokens: tokens && toCount(tokens.input),
          outputTokens: tokens && toCount(tokens.output),
          leaseUntil: null,
        })
        .where(and(eq(messages.id, id), eq(messages.agentId, agent), isRunning))
        .returning({ chat: messages.chatId });
      if (!row) return false;
      await tx
        .update(chats)
        .set({
          inputTokens: sql`${chats.inputTokens} + ${toCount(tokens?.input ?? 0)}`,
          outputTokens: sql`${chats.outputTokens} + ${toCount(tokens?.output ?? 0)}`,
          updatedAt: sql`now()`,
        })
        .where(eq(chats.id, row.chat));
      return true;
    });
  },

  /** Puts off the end of the leases of these; answers those that are still the agent's, with what others have asked of it. */
  async renew(
    agent: string,
    ids: readonly string[],
    leaseSeconds: number,
  ): Promise<{ id: string; isStopAsked: boolean; asked: Asked | null }[]> {
    return await db
      .update(messages)
      .set({ leaseUntil: fromNow(leaseSeconds) })
      .where(and(inArray(messages.id, [...ids]), eq(messages.agentId, agent), isRunning))
      .returning({ id: messages.id, isStopAsked: messages.isStopAsked, asked: messages.asked });
  },

  /** Asks the agent that makes it to stop. Nothing when it has ended. */
  async askToStop(id: string): Promise<void> {
    await db
      .update(messages)
      .set({ isStopAsked: true })
      .where(and(eq(messages.id, id), isRunning));
  },

  /** Tells the agent that makes it what was decided about a call. */
  async decide(id: string, decision: Asked): Promise<void> {
    await db
      .update(messages)
      .set({ asked: sql`coalesce(${messages.asked}, '{}'::jsonb) || ${JSON.stringify(decision)}::jsonb` })
      .where(and(eq(messages.id, id), isRunning));
  },

  /** Ends the answers whose agent is not alive any more; answers how many. */
  async endLost(): Promise<number> {
    const error = { code: 'lost', detail: 'The agent that made this answer has ended in the middle of it.' };
    const rows = await db
      .update(messages)
      .set({ status: 'error', error, leaseUntil: null })
      .where(and(isRunning, lt(messages.leaseUntil, sql`now()`)))
      .returning({ id: messages.id });
    return rows.length;
  },

  async find(chat: string, id: string): Promise<MessageRow | undefined> {
    const [row] = await db
      .select()
      .from(messages)
      .where(and(eq(messages.chatId, chat), eq(messages.id, id)));
    return row;
  },

  /** A page of a chat, the oldest first; shorter than asked for where the messages are large. */
  async list(chat: string, { limit, cursor }: PageQuery): Promise<{ items: MessageRow[]; nextCursor: string | null }> {
    const after = cursor === undefined ? 0 : readPosition(cursor);
    const size = sql`pg_column_size(${messages.parts})`;
    const page = db
      .select({
        ...getTableColumns(messages),
        sizeBefore: sql<number>`sum(${size}) over (order by ${messages.position}) - ${size}`.as('size_before'),
        left: sql<number>`count(*) over ()`.mapWith(Number).as('left_over'),
      })
      .from(messages)
      .where(and(eq(messages.chatId, chat), gt(messages.position, after)))
      .orderBy(asc(messages.position))
      .limit(limit)
      .as('page');
    const rows = await db.select().from(page).where(lt(page.sizeBefore, pageBytes)).orderBy(asc(page.position));
    const items = rows.map(({ sizeBefore: _, left: __, ...row }) => row);
    const last = items.at(-1);
    const hasMore = last !== undefined && (rows[0]?.left ?? 0) > items.length;
    return { items, nextCursor: hasMore ? String(last.position) : null };
  },

  /** The ids of the answers of a chat, the oldest first. */
  async answers(chat: string): Promise<string[]> {
    const rows = await db
      .select({ id: messages.id })
      .from(messages)
      .where(and(eq(messages.chatId, chat), eq(messages.role, 'assistant')))
      .orderBy(asc(messages.position));
    return rows.map(({ id }) => id);
  },

  /** What was said with the model before, answer by answer, the oldest first. */
  async history(chat: string): Promise<ModelMessage[][]> {
    const rows = await db
      .select({ history: messages.history })
      .from(messages)
      .where(and(eq(messages.chatId, chat), eq(messages.role, 'assistant'), ne(messages.status, 'running')))
      .orderBy(desc(messages.position))
      .limit(maxAnswersBefore);
    return rows.reverse().map(({ history }) => history);
  },
});

export type MessageStore = ReturnType<typeof createMessageStore>;

/** What a model says of its tokens may be anything; the columns hold whole numbers of 31 bits. */
const toCount = (tokens: number): number => Math.trunc(Math.min(Math.max(tokens || 0, 0), 2 ** 31 - 1));

const readPosition = (cursor: string): number => {
  if (!/^\d{1,15}$/.test(cursor)) throw foreignCursor();
  return Number(cursor);
};

/** What the index says that allows each chat one answer in the making, and the key that wants a chat for it. */
const toRefusal = (thrown: unknown): unknown => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    const constraint = 'constraint' in error ? error.constraint : undefined;
    if (constraint === 'messages_one_running')
      return new CodeBoxError('conflict', 'The chat is still being answered: wait for that, or stop it.', {
        cause: thrown,
        retryAfterSeconds: 1,
      });
    if (constraint === 'messages_chat_id_chats_id_fk')
      return new CodeBoxError('not_found', 'The chat is gone.', { cause: thrown });
  }
  return thrown;
};
