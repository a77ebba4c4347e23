import { sql } from 'drizzle-orm';
import { bigint, boolean, index, integer, jsonb, pgSchema, text, timestamp, uniqueIndex } from 'drizzle-orm/pg-core';
import type { ModelMessage } from '../models/model.ts';
import type { Decisions, StoredFile, StoredPart } from './stored.ts';

const instant = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 3 });
const count = (name: string) => bigint(name, { mode: 'number' }).notNull().default(0);

/** Separate from the gateway's tables, which may be in the same database. */
export const agent = pgSchema('agent');

/** Secrets that all agents of one deployment share. */
export const secrets = agent.table('secrets', {
  name: text('name').primaryKey(),
  value: text('value').notNull(),
});

/** Conversations, each of one tenant of the gateway and, if named, of one of its users. */
export const chats = agent.table(
  'chats',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id').notNull(),
    userId: text('user_id'),
    title: text('title'),
    model: text('model'),
    approval: text('approval', { enum: ['never', 'always'] })
      .notNull()
      .default('never'),
    template: text('template'),
    /** The box of the chat, and since when that has its files only. */
    boxId: text('box_id'),
    boxRestoredAt: instant('box_restored_at'),
    /** When the chat is removed automatically, if it was created for one answer only. */
    removeAt: instant('remove_at'),
    /** The loss that the next answer has to report: the variables of the box, or its files too. */
    lost: text('lost', { enum: ['variables', 'files'] }),
    inputTokens: count('input_tokens'),
    outputTokens: count('output_tokens'),
    createdAt: instant('created_at').notNull().defaultNow(),
    updatedAt: instant('updated_at').notNull().defaultNow(),
  },
  (table) => [
    index('chats_owner').on(table.tenantId, table.userId, table.createdAt, table.id),
    index('chats_remove').on(table.removeAt).where(sql`${table.removeAt} is not null`),
  ],
);

/** Questions and answers in the order of `position`. An answer is `running` while a living agent generates it. */
export const messages = agent.table(
  'messages',
  {
    id: text('id').primaryKey(),
    position: bigint('position', { mode: 'number' }).generatedAlwaysAsIdentity(),
    chatId: text('chat_id')
      .notNull()
      .references(() => chats.id, { onDelete: 'cascade' }),
    role: text('role', { enum: ['user', 'assistant'] }).notNull(),
    status: text('status', { enum: ['running', 'ok', 'stopped', 'limit', 'error'] }).notNull(),
    /** The question that an answer belongs to. */
    questionId: text('question_id'),
    content: text('content').notNull().default(''),
    parts: jsonb('parts').$type<StoredPart[]>().notNull().default([]),
    files: jsonb('files').$type<StoredFile[]>().notNull().default([]),
    model: text('model'),
    inputTokens: integer('input_tokens'),
    outputTokens: integer('output_tokens'),
    rounds: integer('rounds'),
    /** The number of the last event, once the answer has ended. */
    lastSeq: integer('last_seq'),
    error: jsonb('error').$type<{ code: string; detail: string }>(),
    /** The messages that this answer added to the conversation with the model. */
    history: jsonb('history').$type<ModelMessage[]>().notNull().default([]),
    /** The agent that generates the answer, and until when its lease is valid. */
    agentId: text('agent_id'),
    leaseUntil: instant('lease_until'),
    /** Requests of other agents to the agent that generates the answer. */
    decisions: jsonb('asked').$type<Decisions>(),
    isStopRequested: boolean('is_stop_asked').notNull().default(false),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [
    index('messages_chat').on(table.chatId, table.position),
    uniqueIndex('messages_one_running').on(table.chatId).where(sql`${table.status} = 'running'`),
    index('messages_lease').on(table.leaseUntil).where(sql`${table.status} = 'running'`),
  ],
);

/**
 * Files of chats in the blob store. A row is written before its blob and deleted after it; the blobs of removed chats
 * are deleted too.
 */
export const blobs = agent.table(
  'blobs',
  {
    id: text('id').primaryKey(),
    chatId: text('chat_id').notNull(),
    sizeBytes: count('size_bytes'),
    createdAt: instant('created_at').notNull().defaultNow(),
  },
  (table) => [index('blobs_chat').on(table.chatId)],
);

/**
 * Files of owners outside chats, in the blob store. A row is written before its blob and deleted after it. It has a size once the
 * blob is whole, and until then expires early.
 */
export const uploads = agent.table(
  'uploads',
  {
    id: text('id').primaryKey(),
    tenantId: text('tenant_id').notNull(),
    userId: text('user_id'),
    name: text('name').notNull().default(''),
    purpose: text('purpose').notNull().default(''),
    sizeBytes: bigint('size_bytes', { mode: 'number' }),
    createdAt: instant('created_at').notNull().defaultNow(),
    expiresAt: instant('expires_at').notNull(),
  },
  (table) => [
    index('uploads_owner').on(table.tenantId, table.userId, table.createdAt, table.id),
    index('uploads_expire').on(table.expiresAt),
  ],
);
