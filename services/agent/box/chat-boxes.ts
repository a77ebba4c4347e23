import { type Box, CodeBoxError, hasCode } from '#contract';
import type { Owner } from '../chats/owner.ts';
import type { ChatRow, ChatStore } from '../store/chats.ts';

/** As long as the gateway lets a box be: its files are the chat's. */
const maxLifetimeSeconds = 2_592_000;

const ended = new Set<Box['state']>(['deleting', 'deleted', 'failed', 'lost']);

/** What of a chat its box is made from. */
export type BoxedChat = Pick<ChatRow, 'id' | 'template' | 'boxId' | 'boxRestoredAt' | 'createdAt' | 'removeAt'>;

/** So long after `from` a box ends at the latest by itself: with its chat, where that has an end. */
const lifetimeSeconds = (from: Date, end: Date | null): number => {
  if (end === null) return maxLifetimeSeconds;
  return Math.min(Math.max(Math.ceil((end.getTime() - from.getTime()) / 1000), 1), maxLifetimeSeconds);
};

/** The box of each chat: one at a time, found again by the chat's id, put aside when it is idle. */
export const createChatBoxes = (chats: Pick<ChatStore, 'setBox'>) => ({
  /**
   * Has it ready; a chat whose box has ended gets a new one. What was lost between this box and the one before is noted for the
   * next answer.
   */
  async open({ client }: Owner, chat: BoxedChat, signal?: AbortSignal): Promise<Box> {
    const box = await client.boxes.create(
      {
        user: chat.id,
        reuse: true,
        metadata: { chat: chat.id },
        onIdle: 'hibernate',
        maxLifetimeSeconds: lifetimeSeconds(chat.createdAt, chat.removeAt),
        ...(chat.template !== null && { template: chat.template }),
      },
      { idempotencyKey: false, ...(signal && { signal }) },
    );
    const restoredAt = box.restoredAt === null ? null : new Date(box.restoredAt);
    const isOther = box.id !== chat.boxId;
    const isRestored = restoredAt !== null && restoredAt.getTime() !== chat.boxRestoredAt?.getTime();
    if (isOther || isRestored) {
      const lost = isOther ? 'files' : 'variables';
      const isThere = await chats.setBox(chat.id, box.id, restoredAt, chat.boxId === null ? null : lost);
      if (!isThere) {
        // Removed meanwhile: nobody would ever end this one.
        await client.boxes.delete(box.id);
        throw new CodeBoxError('not_found', 'There is no such chat.');
      }
    }
    return box;
  },

  /** The box that it has had; throws `not_found` when there was none yet. */
  had(chat: Pick<ChatRow, 'boxId'>): string {
    if (chat.boxId === null) throw new CodeBoxError('not_found', 'There is no such file: the chat has no box yet.');
    return chat.boxId;
  },

  /** Whether the box that it has had is still there, with its files. */
  async isThere({ client }: Owner, chat: Pick<ChatRow, 'boxId'>): Promise<boolean> {
    if (chat.boxId === null) return false;
    try {
      return !ended.has((await client.boxes.read(chat.boxId)).state);
    } catch (error) {
      if (hasCode(error, 'not_found')) return false;
      throw error;
    }
  },

  /** Has the boxes of a chat end by themselves then. */
  async endAt({ client }: Owner, chat: string, end: Date): Promise<void> {
    for await (const { id, state, createdAt } of client.boxes.list({ user: chat })) {
      if (ended.has(state)) continue;
      await client.boxes.update(id, { maxLifetimeSeconds: lifetimeSeconds(new Date(createdAt), end) });
    }
  },

  /** Ends all that a chat has, with their files. One that is still being made is ended by who makes it, and finds no chat then. */
  async end({ client }: Owner, chat: string): Promise<void> {
    for await (const { id, state } of client.boxes.list({ user: chat })) {
      if (state === 'creating') continue;
      await client.boxes.delete(id).catch((error: unknown) => {
        if (!(hasCode(error, 'not_found') || hasCode(error, 'gone'))) throw error;
      });
    }
  },
});

export type ChatBoxes = ReturnType<typeof createChatBoxes>;
