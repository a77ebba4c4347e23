import { and, asc, eq, getTableColumns, inArray, lt, sql } from 'drizzle-orm';
import type { PageQuery } from '#contract';
import { CodeBoxError, toPlain } from '#contract';
import { foreignCursor } from '../../postgres/page.ts';
import type { ModelMessage } from '../models/model.ts';
import { type Database, fromNow } from './database.ts';
import { type DeletedFiles, markDeleted } from './deleted-files.ts';
import { toPlainJson } from './plain-json.ts';
import { chats, messages } from './schema.ts';
import type { Decisions, StoredFile } from './stored.ts';

type StoredMessage = typeof messages.$inferSelect;

/** A message without its part of the conversation with the model, which no reader gets. */
export type MessageRow = Omit<StoredMessage, 'history'>;

type Lost = NonNullable<typeof chats.$inferSelect.lost>;

/** A question, and the answer that begins with it. */
export interface NewAnswer {
  chat: string;
  question: { id: string; content: string; files: StoredFile[] };
  /** The model's messages are stored at the beginning, even when no answer comes of them. */
  answer: { id: string; model: string | null; history: ModelMessage[] };
  /** The title of the chat, if it has none yet. */
  title: string;
  agent: string;
  leaseSeconds: number;
}

/** How an answer ended. */
export interface AnswerEnd
  extends Pick<StoredMessage, 'status' | 'content' | 'parts' | 'files' | 'rounds' | 'lastSeq' | 'error' | 'history'> {
  tokens: { input: number; output: number } | null;
}

const isRunning = eq(messages.status, 'running');
/** First bounds; the history that the model receives is bounded once more by its tokens. */
const maxAnswersBefore = 100;
const historyBytes = 4 * 1024 * 1024;
/** Limit for all messages of one page but the last one. */
const pageBytes = 4 * 1024 * 1024;

const { history: _, ...shown } = getTableColumns(messages);

/** Questions and answers. The caller has to check who owns their chat. */
export const createMessageStore = (db: Database) => ({
  /** Inserts both rows or none, and sets the title; throws `conflict` while the chat has a running answer. */
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

  /** Saves the answer so far. */
  async save(id: string, agent: string, now: Pick<MessageRow, 'content' | 'parts' | 'files'>): Promise<void> {
    await db
      .update(messages)
      .set(toPlainJson(now))
      .where(and(eq(messages.id, id), eq(messages.agentId, agent), isRunning));
  },

  /**
   * Takes the loss that is recorded for the chat's box and stores what `describe` makes of it in the rows of this
   * answer. Each loss is taken once, whatever becomes of the answer. Resolves with null when there was no loss, or the
   * answer has ended.
   */
  async takeLost(
    { chat, message, agent }: { chat: string; message: string; agent: string },
    describe: (lost: Lost) => Pick<StoredMessage, 'parts' | 'history'>,
  ): Promise<Lost | null> {
    return await db.transaction(async (tx) => {
      const [row] = await tx.select({ lost: chats.lost }).from(chats).where(eq(chats.id, chat)).for('update');
      if (!row?.lost) return null;
      const { lost } = row;
      const updated = await tx
        .update(messages)
        .set(toPlainJson(describe(lost)))
        .where(and(eq(messages.id, message), eq(messages.agentId, agent), isRunning))
        .returning({ id: messages.id });
      if (updated.length === 0) return null;
      await tx.update(chats).set({ lost: null }).where(eq(chats.id, chat));
      return lost;
    });
  },

  /** Marks these files as deleted in the messages so far. */
  markDeleted: (chat: string, deleted: DeletedFiles): Promise<void> => markDeleted(db, chat, deleted),

  /** Resolves with false when the answer has ended already, or was removed with its chat. */
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

  /**
   * Renews the leases of these answers; resolves with those that still belong to the agent, with the requests of other
   * agents.
   */
  async renew(
    agent: string,
    ids: readonly string[],
    leaseSeconds: number,
  ): Promise<{ id: string; isStopRequested: boolean; decisions: Decisions | null }[]> {
    return await db
      .update(messages)
      .set({ leaseUntil: fromNow(leaseSeconds) })
      .where(and(inArray(messages.id, [...ids]), eq(messages.agentId, agent), isRunning))
      .returning({ id: messages.id, isStopRequested: messages.isStopRequested, decisions: messages.decisions });
  },

  /** Asks the agent that generates the answer to stop it. Does nothing when it has ended. */
  async askToStop(id: string): Promise<void> {
    await db
      .update(messages)
      .set({ isStopRequested: true })
      .where(and(eq(messages.id, id), isRunning));
  },

  /** Passes a decision about a call to the agent that generates the answer. */
  async decide(id: string, decision: Decisions): Promise<void> {
    await db
      .update(messages)
      .set({
        decisions: sql`coalesce(${messages.decisions}, '{}'::jsonb) || ${JSON.stringify(toPlainJson(decision))}::jsonb`,
      })
      .where(and(eq(messages.id, id), isRunning));
  },

  /** Ends the answers whose agent is no longer alive; resolves with their number. */
  async endLost(): Promise<number> {
    const error = { code: 'lost', detail: 'The agent that was generating this answer ended unexpectedly.' };
    const rows = await db
      .update(messages)
      .set({ status: 'error', error, leaseUntil: null })
      .where(and(isRunning, lt(messages.leaseUntil, sql`now()`)))
      .returning({ id: messages.id });
    return rows.length;
  },

  async find(chat: string, id: string): Promise<MessageRow | undefined> {
    const [row] = await db
      .select(shown)
      .from(messages)
      .where(and(eq(messages.chatId, chat), eq(messages.id, id)));
    return row;
  },

  /** A page of a chat, oldest first; shorter than requested when the messages are large. */
  async list(chat: string, { limit, cursor }: PageQuery): Promise<{ items: MessageRow[]; nextCursor: string | null }> {
    const after = cursor === undefined ? 0 : readPosition(cursor);
    // Compressed sizes cost nothing to read, so they bound the rows whose real sizes are measured.
    const { rows: page } = await db.execute<{ id: string; remaining: string }>(sql`
      select id, remaining from (
        select id, remaining, sum(octet_length(parts::text) + 2 * octet_length(content)) over earlier as bytes from (
          select id, position, parts, content, count(*) over () as remaining,
            sum(pg_column_size(parts) + octet_length(content)) over earlier as stored_bytes
          from ${messages} where chat_id = ${chat} and position > ${after}
          window earlier as (order by position rows between unbounded preceding and 1 preceding)
          order by position limit ${limit}
        ) stored where coalesce(stored_bytes, 0) < ${pageBytes}
        window earlier as (order by position rows between unbounded preceding and 1 preceding)
      ) measured where coalesce(bytes, 0) < ${pageBytes}`);
    if (page.length === 0) return { items: [], nextCursor: null };
    const ids = page.map(({ id }) => id);
    const items = await db
      .select(shown)
      .from(messages)
      .where(inArray(messages.id, ids))
      .orderBy(asc(messages.position));
    const last = items.at(-1);
    const hasMore = last !== undefined && Number(page[0]?.remaining) > page.length;
    return { items, nextCursor: hasMore ? String(last.position) : null };
  },

  /** The ids of the answers of a chat, oldest first. */
  async answers(chat: string): Promise<string[]> {
    const rows = await db
      .select({ id: messages.id })
      .from(messages)
      .where(and(eq(messages.chatId, chat), eq(messages.role, 'assistant')))
      .orderBy(asc(messages.position));
    return rows.map(({ id }) => id);
  },

  /** The earlier conversation with the model, answer by answer, oldest first; without the answers before the last 4 MiB. */
  async history(chat: string): Promise<ModelMessage[][]> {
    const { rows } = await db.execute<{ history: ModelMessage[] }>(sql`
      select history from (
        select history, position, sum(octet_length(history::text)) over later as bytes from (
          select history, position, sum(pg_column_size(history)) over later as stored_bytes
          from ${messages} where chat_id = ${chat} and role = 'assistant' and status <> 'running'
          window later as (order by position desc rows between unbounded preceding and 1 preceding)
          order by position desc limit ${maxAnswersBefore}
        ) stored where coalesce(stored_bytes, 0) < ${historyBytes}
        window later as (order by position desc rows between unbounded preceding and 1 preceding)
      ) measured where coalesce(bytes, 0) < ${historyBytes} order by position`);
    return rows.map(({ history }) => history);
  },
});

export type MessageStore = ReturnType<typeof createMessageStore>;

/** A model may report any number of tokens; the columns hold integers of 31 bits. */
const toCount = (tokens: number): number => Math.trunc(Math.min(Math.max(tokens || 0, 0), 2 ** 31 - 1));

const readPosition = (cursor: string): number => {
  if (!/^\d{1,15}$/.test(cursor)) throw foreignCursor();
  return Number(cursor);
};

/** Translates violations of the index that allows one running answer per chat, and of the foreign key to the chat. */
const toRefusal = (thrown: unknown): unknown => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    const constraint = 'constraint' in error ? error.constraint : undefined;
    if (constraint === 'messages_one_running')
      return new CodeBoxError('conflict', 'The chat has a running answer: wait for it, or stop it.', {
        cause: thrown,
        retryAfterSeconds: 1,
      });
    if (constraint === 'messages_chat_id_chats_id_fk')
      return new CodeBoxError('not_found', 'The chat was removed.', { cause: thrown });
  }
  return thrown;
};
