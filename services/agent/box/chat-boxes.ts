import { type Box, CodeBoxError, hasCode, type NetworkPolicy } from '#contract';
import type { Owner } from '../chats/owner.ts';
import type { ChatRow, ChatStore } from '../store/chats.ts';
import type { DefaultTemplate } from './default-template.ts';

/** The longest lifetime that the gateway allows: the files of the box belong to the chat. */
const maxLifetimeSeconds = 2_592_000;

const ended = new Set<Box['state']>(['deleting', 'deleted', 'failed', 'lost']);

/** The columns of a chat that its box is created from. */
export type BoxedChat = Pick<ChatRow, 'id' | 'template' | 'boxId' | 'boxRestoredAt' | 'createdAt' | 'removeAt'>;

/** How long after `from` the box ends by itself: with its chat if that has an end, otherwise as late as possible. */
const lifetimeSeconds = (from: Date, end: Date | null): number => {
  if (end === null) return maxLifetimeSeconds;
  return Math.min(Math.max(Math.ceil((end.getTime() - from.getTime()) / 1000), 1), maxLifetimeSeconds);
};

export interface ChatBoxesOptions {
  chats: Pick<ChatStore, 'setBox'>;
  defaultTemplate: DefaultTemplate;
  /** The network of new boxes; by default that of their template. */
  network?: NetworkPolicy | undefined;
}

/** The box of each chat: one at a time, found by the chat's id, hibernated when idle. */
export const createChatBoxes = ({ chats, defaultTemplate, network }: ChatBoxesOptions) => ({
  /**
   * Makes the box ready; a chat whose box has ended gets a new one. Records what was lost since the previous box, for
   * the next answer.
   */
  async open({ client }: Owner, chat: BoxedChat, signal?: AbortSignal): Promise<Box> {
    const template = chat.template ?? (await defaultTemplate());
    const box = await client.boxes.create(
      {
        user: chat.id,
        reuse: true,
        metadata: { chat: chat.id },
        onIdle: 'hibernate',
        maxLifetimeSeconds: lifetimeSeconds(chat.createdAt, chat.removeAt),
        ...(template !== undefined && { template }),
        ...(network !== undefined && { network }),
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
        // The chat was removed meanwhile: nobody else would ever delete this box.
        await client.boxes.delete(box.id);
        throw new CodeBoxError('not_found', 'There is no such chat.');
      }
    }
    return box;
  },

  /** Returns the id of the chat's current or last box, where `what` is; throws `not_found` when there has been none. */
  had(chat: Pick<ChatRow, 'boxId'>, what: 'file' | 'cell'): string {
    if (chat.boxId === null) throw new CodeBoxError('not_found', `There is no such ${what}: the chat has no box yet.`);
    return chat.boxId;
  },

  /** Whether the chat's last box still exists, with its files. */
  async isThere({ client }: Owner, chat: Pick<ChatRow, 'boxId'>): Promise<boolean> {
    if (chat.boxId === null) return false;
    try {
      return !ended.has((await client.boxes.read(chat.boxId)).state);
    } catch (error) {
      if (hasCode(error, 'not_found')) return false;
      throw error;
    }
  },

  /** Makes the boxes of a chat end by themselves at that time. */
  async endAt({ client }: Owner, chat: string, end: Date): Promise<void> {
    for await (const { id, state, createdAt } of client.boxes.list({ user: chat })) {
      if (ended.has(state)) continue;
      await client.boxes.update(id, { maxLifetimeSeconds: lifetimeSeconds(new Date(createdAt), end) });
    }
  },

  /**
   * Deletes all boxes of a chat, with their files. A box that is still being created is deleted by its creator, who
   * finds that the chat is gone.
   */
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
